"""SQLite and PostgreSQL behind one Protocol: connections, the one writer, statements, typed rows, errors.

It knows none of the tables.
"""
