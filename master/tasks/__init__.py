"""Interactive tasks: one life for all kinds (`kinds`).

Commands, notebooks, shells and TensorBoards differ in a row of `kinds`; `generic` has trees of tasks.
"""
