"""Tasks of all kinds.

`generic` creates trees of tasks; `allocations` is what the containers of a task ask and tell.
"""
