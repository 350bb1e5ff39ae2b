"""Templates of configuration: stored here, applied by whoever launches something."""
