"""Runs a command of windlass with heartbeats every `BEAT_S`; a master writes when it took each. For `bench_proxy`.

python -m benchmarks.timed_heartbeats FILE PROGRAM [ARGUMENTS]
"""

from __future__ import annotations

import runpy
import sys
import time
from itertools import pairwise
from pathlib import Path

from agent_bootstrap.agent.connection import session
from agent_bootstrap.protocol import Heartbeat, Message
from master.api.agents.socket import SocketChannel

BEAT_S = 0.1
MODULE = "benchmarks.timed_heartbeats"
receive = SocketChannel.receive


def lateness_ms(file: Path, since: float) -> list[float]:
    """Of each beat that came after `since`, by the monotonic clock; the smallest first."""
    times = [float(line) for line in file.read_text().splitlines()]
    return sorted(max(0.0, b - a - BEAT_S) * 1000 for a, b in pairwise(times) if b > since)


def main(file: str, *command: str) -> None:
    session.HEARTBEAT_S = BEAT_S  # type: ignore[attr-defined]
    with Path(file).open("a", buffering=1) as beats:

        async def timed(channel: SocketChannel) -> Message:
            message = await receive(channel)
            if isinstance(message, Heartbeat):
                beats.write(f"{time.monotonic()}\n")
            return message

        SocketChannel.receive = timed  # type: ignore[method-assign, assignment]
        sys.argv = list(command)
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
