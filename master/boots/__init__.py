"""What machines fetch before their agents run.

Each gets it for the token of its launch: a script, settings of its pool, and wheels of this release.
"""
