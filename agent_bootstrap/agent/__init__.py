"""The daemon on a node: tells the master what is here, and does what the master asks.

`daemon` is where it begins; `containers` are what it runs, `runtimes` how.
"""
