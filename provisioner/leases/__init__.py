"""The life of a job at a batch system, whoever asks for it: dispatched jobs and pilots are leases of nodes.

`job_record` says, purely, what is noted of a job and what follows from each answer of its site.
"""
