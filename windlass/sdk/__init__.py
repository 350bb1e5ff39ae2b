"""Programs that talk to a master: sessions, a small client, packing of model directories.

`session` is the connection, `client` the calls by name; credentials and certificates are kept in the user's home.
"""
