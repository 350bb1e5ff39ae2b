"""`det deploy local`, `aws` and `gcp`: clusters of one's own.

Options and output are here; the work is done by windlass.deploy.
"""
