"""What every container of a trial or a command starts first: `python -P -m windlass.launch`.

    trial:    info files -> model definition -> accelerators told -> startup hooks -> rendezvous -> storage check
              -> entrypoint
    command:  info files -> context directory -> startup hooks -> the user's program

Standard library only, and quick: it stands between a submitted task and the user's first line.
"""
