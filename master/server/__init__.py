"""The HTTP server around the API: its socket, connections and TLS hand-shakes, its end, and what blocks its loop."""
