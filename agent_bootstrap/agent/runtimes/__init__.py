"""Ways to run one container on this machine, behind one Protocol.

As a process with a root of its own (here), by an engine (`engine`), or by a program for images (`commands`).
"""
