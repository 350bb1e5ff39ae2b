"""The model registry: models, whose versions are checkpoints that users gave a name."""
