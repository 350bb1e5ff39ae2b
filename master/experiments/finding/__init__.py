"""Finding experiments and runs: two languages of filters, one of sorts, and what they are in SQL.

`filters` and `sorts` read the text that clients of the published API send; `language` reads the one that people
write, by its `tokens`, `words` and `literals`. Both give the tree of `filters`, of which `statements` makes conditions
on `subjects`, for both databases.
"""
