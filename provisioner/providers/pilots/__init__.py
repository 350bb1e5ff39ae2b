"""Batch jobs as machines of elastic pools. `provider` has the `Provider`, `offers` what a queue sells to a pool."""
