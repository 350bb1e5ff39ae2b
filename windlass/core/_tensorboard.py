"""TensorBoard files of a trial: written locally by whoever likes to, kept beside the checkpoints.

Unlike the published package, AUTO mode does not write metrics as TensorBoard events, which would need torch or
TensorFlow: the master has them already. It does keep whatever training code put into the directory.
"""

from __future__ import annotations

import enum
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.storage import Storage

log = logging.getLogger("windlass.core")

SYNC_EVERY_S = 1.0
"""In AUTO mode at most so often: storages count requests."""

PathSelector = Callable[[Path], bool]
Mangler = Callable[[Path, int], Path]


class TensorboardMode(enum.Enum):
    AUTO = "AUTO"
    """The chief's files are kept whenever metrics or a checkpoint are reported, and at the end."""
    MANUAL = "MANUAL"
    """Nothing happens unless `upload_tensorboard_files()` is called."""


class TensorboardFiles:
    """One rank's local directory and its place in storage."""

    def __init__(
        self, storage: Storage, place: tuple[str, int, int], allocation_id: str, rank: int
    ) -> None:
        """`place` is (cluster id, experiment id, trial id)."""
        cluster, experiment, trial = place
        self._storage = storage
        self._folder = f"{cluster}/tensorboard/experiment/{experiment}/trial/{trial}"
        self._rank = rank
        self._stored: dict[str, tuple[int, int]] = {}
        """Name in storage -> (time, size) of the file that is stored under it."""
        self.directory = Path(tempfile.gettempdir()) / f"tensorboard-{allocation_id}-{rank}"

    def sync(
        self,
        selector: PathSelector = lambda _: True,
        mangler: Mangler = lambda path, _: path,
    ) -> None:
        """Store new and changed files. Nothing written yet is fine. Raises StorageError."""
        for source in sorted(p for p in self.directory.rglob("*") if p.is_file()):
            if not selector(source):
                continue
            name = mangler(source.relative_to(self.directory), self._rank).as_posix()
            status = source.stat()
            version = (status.st_mtime_ns, status.st_size)
            if self._stored.get(name) != version:
                self._storage.upload_file(source, self._folder, name)
                self._stored[name] = version


class TensorboardSync:
    """AUTO mode: a thread that stores what is new when it is told to look. Training neither waits nor fails for it."""

    def __init__(
        self, files: TensorboardFiles, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = files
        self._clock = clock
        self._due = clock()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="tensorboard-files", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self) -> None:
        if self._clock() >= self._due:
            self._due = self._clock() + SYNC_EVERY_S
            self._wake.set()

    def close(self) -> None:
        """Returns when everything is stored."""
        if self._thread.ident is not None:
            self._closing = True
            self._wake.set()
            self._thread.join()

    def _run(self) -> None:
        closing = False
        while not closing:
            self._wake.wait()
            self._wake.clear()
            closing = self._closing  # before the last look, which then sees everything
            try:
                self._files.sync()
            except (WindlassError, OSError, ValueError) as problem:
                log.warning("TensorBoard files are not stored: %s", problem)
