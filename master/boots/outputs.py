"""What scripts printed on machines whose boot failed: it may hold secrets, so it is in no log."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from urllib.parse import quote

from windlass.base.files import write_atomic

MAX_KEPT = 200
"""Of the newest machines."""


class BootOutputs:
    """A file each, which only the master's user reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    async def keep(self, machine: str, text: str) -> Path:
        """Where it is now. Raises OSError."""
        return await asyncio.to_thread(self._keep, machine, text)

    def _keep(self, machine: str, text: str) -> Path:
        path = self._folder / f"{quote(machine, safe='')}.txt"
        with self._lock:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomic(path, f"{text}\n".encode())
            by_age = sorted(self._folder.iterdir(), key=lambda found: found.stat().st_mtime)
            for old in by_age[:-MAX_KEPT]:
                old.unlink()
        return path
