"""What every package may import: errors, clock, ids, processes, the Loop. Standard library and pydantic only.

It imports none of the others.
"""
