"""Which master is obeyed: never one with an older leader lease than another that was seen, over restarts too."""

from __future__ import annotations

import json
from pathlib import Path

from windlass.base.files import write_atomic


class EpochMemory:
    """The highest epoch seen, on disk before it is acted upon."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._highest = self._read()

    @property
    def highest(self) -> int:
        return self._highest

    def admit(self, epoch: int) -> bool:
        """False: that master has been succeeded, do not obey. Blocks for a write when the epoch is new."""
        if epoch > self._highest:
            write_atomic(self._path, json.dumps({"highest": epoch}).encode(), durable=True)
            self._highest = epoch
        return epoch == self._highest

    def _read(self) -> int:
        try:
            return int(json.loads(self._path.read_bytes())["highest"])
        except FileNotFoundError:
            return 0
