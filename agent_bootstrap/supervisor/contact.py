"""How long a supervisor goes on without agent and master: `orphan_ttl` of agent.yaml. Standard library only."""

from __future__ import annotations

import os
import time

LOOKS_PER_TTL = 10
FILE = "contact"
"""In the agent's work_dir: touched with each heartbeat that the agent sends to its master."""


class Contact:
    """Without a limit it is never over. Counts while the machine runs; jumps of the clock mean nothing."""

    def __init__(self, container_dir: str, limit_s: float | None) -> None:
        self._path = os.path.join(os.path.dirname(os.path.dirname(container_dir)), FILE)
        self._limit_s = limit_s
        self._seen = self._look()
        self._since = time.monotonic()

    @property
    def pause_s(self) -> float | None:
        return None if self._limit_s is None else self._limit_s / LOOKS_PER_TTL

    def is_lost(self) -> bool:
        if self._limit_s is None:
            return False
        now, seen = time.monotonic(), self._look()
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since > self._limit_s

    def sentence(self) -> str:
        return (
            f"ended: its agent had no contact to the master for {self._limit_s:.0f} s (orphan_ttl)"
        )

    def _look(self) -> int:
        try:
            return os.stat(self._path).st_mtime_ns
        except OSError:
            return 0
