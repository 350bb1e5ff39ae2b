"""What running trials report: metrics, progress, checkpoints, early exits, and log lines that match a policy.

Every report may be repeated; each is a pure step of its experiment, committed before it is answered.
"""
