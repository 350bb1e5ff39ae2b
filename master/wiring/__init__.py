"""Sections of master.yaml as the parts that they configure take them; only `master.app` and commands import it.

`agents`, `elastic`, `aws`, `gcp` and `batch/` are the kinds of pools; the rest serves what boots, and the clock.
"""
