"""`det experiment`, `det trial` and `det checkpoint`.

They submit and steer experiments, and show and copy what came of them.
"""
