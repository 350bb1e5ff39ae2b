"""What the callbacks of training frameworks have in common: reports, checkpoints and the end of a run of a trial."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from windlass.core._context import Context
from windlass.core._sharding import METADATA_FILE
from windlass.storage import Selector

TRAINING = "training"
VALIDATION = "validation"
SAVING_S = 30.0
"""What a checkpoint is given before a deadline."""


def missing_framework(missing: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """The same error, with what to install."""
    return ModuleNotFoundError(
        f"windlass.core.{extra} needs {missing.name}: install it where this runs "
        f"(pip install 'windlass-cluster[{extra}]')",
        name=missing.name,
    )


class FrameworkTrial:
    """A trial on the cluster, or the same program off it, as a callback uses it: every rank makes every call."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.is_chief = context.distributed.rank == 0
        self.preempted = False
        """Whether training stopped, or is about to, because the cluster said so."""
        self._reported: dict[str, tuple[int, frozenset[str]]] = {}
        """Group -> the last step, and the names that were reported at it."""

    def report(self, group: str, step: int, metrics: Mapping[str, Any]) -> None:
        """The numbers among the metrics. Frameworks log some twice at a step, with rounding: the first is reported."""
        if not self.is_chief:
            return
        last, names = self._reported.get(group, (-1, frozenset()))
        known = names if last == step else frozenset()
        fresh = {name: value for name, value in numbers(metrics).items() if name not in known}
        if fresh:
            self.context.train.report_metrics(group, step, fresh)
            self._reported[group] = (step, known | fresh.keys())

    def report_progress(self, done: float, whole: float) -> None:
        """Nothing where the framework does not know how long it trains."""
        if self.is_chief and 0 < whole < math.inf:
            self.context.train.report_progress(min(1.0, max(0.0, done / whole)))

    def should_stop(self) -> bool:
        """Ask after each step. The same answer on all ranks, and once true, always."""
        if not self.preempted:
            self.preempted = self.context.preempt.should_preempt()
        return self.preempted

    def upload(self, directory: str | os.PathLike[str], folder: str, step: int) -> None:
        """Store `folder` of a directory, which the ranks of a machine share and have written into, as a checkpoint."""
        ranks = self.context.distributed
        selector = _folder_and_metadata(folder)
        metadata = {"steps_completed": step}
        if ranks.size == 1:
            self.context.checkpoint.upload(directory, metadata, selector=selector)
            return
        ranks.allgather(None)  # all have written their part
        mine = directory if ranks.local_rank == 0 and (Path(directory) / folder).is_dir() else None
        self.context.checkpoint.upload(mine, metadata, shard=True, selector=selector)

    def fetch(self, directory: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Put the checkpoint to go on from into the directory, and return its metadata. None: begin anew."""
        info = self.context.info
        latest = info.latest_checkpoint if info is not None else None
        if latest is None:
            return None
        self.context.checkpoint.download(latest, directory)
        metadata: dict[str, Any] = json.loads((Path(directory) / METADATA_FILE).read_text())
        return metadata


def _folder_and_metadata(folder: str) -> Selector:
    return lambda name: name == METADATA_FILE or name.startswith(f"{folder}/")


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Those metrics that are numbers, or arrays and tensors of one."""
    plain = {name: _plain(value) for name, value in metrics.items()}
    return {name: value for name, value in plain.items() if isinstance(value, int | float)}


def _plain(value: Any) -> Any:
    count = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    return value.item() if count == 1 else value


def ends_in_time(now: datetime, deadline: datetime | None, batches: int, batch_s: float) -> bool:
    """Whether so many batches more, and saving a checkpoint, fit before the deadline."""
    if deadline is None or not batches:
        return True
    return (deadline - now).total_seconds() > batches * batch_s + SAVING_S
