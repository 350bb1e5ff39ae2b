"""`det`, also called `windlass`: the users' command line, which the operators' commands of installed extras join."""
