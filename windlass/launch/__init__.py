"""What every trial container starts first: `python -P -m windlass.launch`.

    info files -> model definition -> accelerators told -> startup hooks -> rendezvous -> storage check -> entrypoint

Standard library only, and quick: it stands between a submitted trial and the user's first line.
"""
