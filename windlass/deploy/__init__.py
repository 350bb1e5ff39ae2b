"""What `det deploy` does, by where the cluster is."""
