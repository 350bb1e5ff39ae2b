"""`det job`, `det command` and `det task`.

The queue, the commands that run beside experiments, and the logs of tasks by their ids.
"""
