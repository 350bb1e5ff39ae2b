"""What every container of a task starts first: `python -P -m windlass.launch`.

    trial:    info files -> files of the task -> accelerators told -> startup hooks -> rendezvous -> storage check
              -> entrypoint
    generic:  info files -> files of the task -> accelerators told -> startup hooks -> rendezvous -> entrypoint
    service:  info files -> files of the task -> accelerators told -> startup hooks -> a free port -> sshd,
              JupyterLab or TensorBoard; the master is told when it is ready
    command:  info files -> files of the task -> startup hooks -> the user's program

Standard library only, and quick: it stands between a submitted task and the user's first line.
"""
