"""The GPUs of a machine: found, chosen, named."""
