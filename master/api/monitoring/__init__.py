"""Pages that Prometheus reads."""
