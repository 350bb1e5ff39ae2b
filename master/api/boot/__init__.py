"""What a machine asks before there is an agent on it, with the token of its launch."""
