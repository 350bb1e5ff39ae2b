"""The sections of configurations as closed, frozen pydantic models with their defaults.

Each checks itself; `reading` makes a whole configuration of them. Pure.
"""
