"""TLS as clients and agents need it: fingerprints, whom to trust, and refusals in words. Standard library only."""
