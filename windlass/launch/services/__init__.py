"""Tasks that serve: notebooks, shells and TensorBoards, from a free port until the master knows that they are ready.

Trials, commands and generic tasks are one level up. Standard library only.
"""
