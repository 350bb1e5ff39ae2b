"""`det agent`, `slot`, `resource-pool`, `master`, `user` and `hpc`: what a cluster consists of, and who may use it.

The verbs that run a master or an agent come from the extras of these names.
"""
