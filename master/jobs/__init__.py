"""The job queue as users see it.

Its jobs are experiments and interactive tasks; their order is decided by the scheduler of each pool.
"""
