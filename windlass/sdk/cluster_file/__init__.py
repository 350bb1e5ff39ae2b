"""What `windlass admin apply` does: makes users, groups and what they share as a file says.

`model` is the file, `reading` reads it, `state` is what the cluster has of it, `plan` compares both and returns steps,
`text` prints these: all of it pure. `current` asks the master for its state and `perform` does steps, both by the
public REST API.
"""
