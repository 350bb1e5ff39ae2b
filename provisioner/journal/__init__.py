"""What was decided about machines, and why: written together with what follows from it."""
