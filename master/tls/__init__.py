"""The master's end of TLS: its certificate, its contexts, its connections until their handshake is over.

Without a certificate from elsewhere the master is its own authority (`own_authority`).
"""
