"""How commands answer: tables, JSON and CSV from one description of columns, logs, progress, and watching a state.

Nothing here knows what is shown.
"""
