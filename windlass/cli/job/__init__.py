"""`det job` and `det task`: the queue, and the logs of tasks by their ids."""
