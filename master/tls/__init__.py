"""The master's end of TLS: its certificate, its contexts, its connections until their handshake is over."""
