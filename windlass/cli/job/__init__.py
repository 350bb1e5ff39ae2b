"""`det job` and `det task`: the queue, and the logs of tasks by their ids.

Generic tasks are created, paused and followed here, too.
"""
