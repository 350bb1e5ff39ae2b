"""Whether a data folder and its database are whole and belong together; copies of them, and back.

`opening` decides at the start of a master; `backup` and `restore` are the operator's commands.
"""
