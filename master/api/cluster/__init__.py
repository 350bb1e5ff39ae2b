"""The master itself.

`routes` says what it is and how it is configured, `description` what its API is, `monitoring` what Prometheus reads.
"""
