"""One run of one task on some slots: rendezvous, preemption, readiness, exit."""
