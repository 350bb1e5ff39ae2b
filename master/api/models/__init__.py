"""The model registry: models, their versions, and the trials that use them."""
