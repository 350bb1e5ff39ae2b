"""The life of every live root (an experiment, an interactive task): messages in batches, one commit, then effects."""
