"""Templates of configuration."""
