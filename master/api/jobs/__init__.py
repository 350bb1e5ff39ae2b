"""The job queue.

It is listed, explained and reordered by resource pool.
"""
