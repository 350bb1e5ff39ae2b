"""Finding experiments and runs: the language of filters and sorts, and what it is in SQL.

`filters` and `sorts` read the text that clients send; `statements` makes conditions of it, for both databases.
"""
