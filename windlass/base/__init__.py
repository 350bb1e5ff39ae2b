"""What every package may import: errors, clock, ids, durations, the Loop. Standard library and pydantic only."""
