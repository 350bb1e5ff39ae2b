"""What machines fetch before their agents run."""
