"""The agent's connection to its master: which transport leads there, whom it trusts, and by what it is known itself.

`session` is one connection from its greeting until it is lost; `link` is what everybody else sends through.
"""
