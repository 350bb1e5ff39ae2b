"""What the supervisor and the process above the task agree on."""

from __future__ import annotations

import signal

TOLD_FD = 3
"""Where task_init.py says how the start and the task went."""
KILL_SIGNAL = signal.SIGRTMIN + 1
"""To a supervisor, and to what watches an engine's container for it: kill the whole tree."""
SPEC_FD = 4
"""Where it reads what to run: the file itself may be out of its reach."""
FILTER_FD = 5
"""Where bubblewrap reads the compiled seccomp filter."""
RELAYED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
"""Signals that are passed on to the task."""


class SetupError(Exception):
    """The task cannot be set up because of what its user asked for."""
