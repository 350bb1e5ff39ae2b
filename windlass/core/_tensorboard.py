"""TensorBoard files of a trial: written locally by whoever likes to, kept beside the checkpoints.

Unlike the published package, AUTO mode does not write metrics as TensorBoard events, which would need torch or
TensorFlow: the master has them already. It does keep whatever training code put into the directory.
"""

from __future__ import annotations

import enum
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from windlass.core._storage import DirectoryStorage


class TensorboardMode(enum.Enum):
    AUTO = "AUTO"
    """The chief's files are kept whenever a checkpoint is reported and at the end."""
    MANUAL = "MANUAL"
    """Nothing happens unless `upload_tensorboard_files()` is called."""


class TensorboardFiles:
    """One rank's local directory and its place in storage."""

    def __init__(
        self, storage: DirectoryStorage, place: tuple[str, int, int], allocation_id: str, rank: int
    ) -> None:
        """`place` is (cluster id, experiment id, trial id)."""
        cluster, experiment, trial = place
        self._target = (
            storage.base
            / cluster
            / "tensorboard"
            / "experiment"
            / str(experiment)
            / "trial"
            / str(trial)
        )
        self._rank = rank
        self.directory = Path(tempfile.gettempdir()) / f"tensorboard-{allocation_id}-{rank}"

    def sync(
        self,
        selector: Callable[[Path], bool] = lambda _: True,
        mangler: Callable[[Path, int], Path] = lambda path, _: path,
    ) -> None:
        """Copy new and changed files. Nothing written yet is fine."""
        for source in sorted(p for p in self.directory.rglob("*") if p.is_file()):
            if not selector(source):
                continue
            target = self._target / mangler(source.relative_to(self.directory), self._rank)
            if target.exists() and target.stat().st_mtime_ns >= source.stat().st_mtime_ns:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
