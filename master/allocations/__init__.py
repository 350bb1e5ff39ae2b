"""One run of one task on some slots: rendezvous, preemption, readiness, exit.

`machine` is its life as pure steps, `service` the door for resource managers and tasks.
"""
