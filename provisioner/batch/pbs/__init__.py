"""OpenPBS and PBS Professional.

`system` is the `BatchSystem`; the text of qsub, qstat and qdel is made and read beside it, purely.
"""
