"""Keras on the cluster, with any of its backends: a callback for `fit`.

callback = TrialCallback(core_context)
model.fit(..., initial_epoch=callback.initial_epoch, callbacks=[callback])
"""

from __future__ import annotations

import math
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from windlass.core._context import Context
from windlass.core._framework_trial import (
    TRAINING,
    VALIDATION,
    FrameworkTrial,
    ends_in_time,
    missing_framework,
)

try:
    import keras  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as missing:
    raise missing_framework(missing, "keras") from missing

__all__ = ["TrialCallback"]
_FILE = "model.weights.h5"
_DOWNLOADS = "latest-checkpoint"
"""In the working directory, which is the container's own."""
_VALIDATION_PREFIX = "val_"


class TrialCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports metrics every `report_every` batches and after each epoch, and saves after every `save_every`-th epoch.

    Keras cannot begin in the middle of an epoch. Told to stop, training goes on to the end of the epoch if that comes
    before the deadline; else it stops at the batch, and the next run begins the epoch again. Metrics have the names
    that Keras gives them (`val_loss`), and `batches` and `epochs` beside them.
    """

    def __init__(self, context: Context, *, report_every: int = 100, save_every: int = 1) -> None:
        super().__init__()
        self._trial = FrameworkTrial(context)
        self._report_every = report_every
        self._save_every = save_every
        self._folder = Path(_DOWNLOADS).absolute()
        self._fetched = self._trial.fetch(self._folder)
        """Metadata of the checkpoint to go on from."""
        begun = self._fetched or {}
        self._steps = int(begun.get("steps_completed", 0))
        self.initial_epoch = int(begun.get("epochs_completed", 0))
        """For `fit`."""
        self._epochs = self._saved = self.initial_epoch
        self._epoch_started = 0.0
        self._cut_off = False
        """Whether training stops in the middle of an epoch."""

    @property
    def preempted(self) -> bool:
        """Whether training stopped because the cluster said so: the program should end."""
        return self._trial.preempted

    def on_train_begin(self, logs: Any = None) -> None:
        if self._fetched is not None:
            self.model.load_weights(self._folder / _FILE)  # those of the optimizer among them
            self._fetched = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch_started = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._steps += 1
        if self._steps % self._report_every == 0:
            begun = (batch + 1) / (self.params.get("steps") or math.inf)
            self._report(TRAINING, logs or {}, epochs=self._epochs + begun)
        if self._trial.should_stop() and not self._can_end_epoch(batch + 1):
            self._cut_off = self.model.stop_training = True

    def _can_end_epoch(self, batches: int) -> bool:
        """All ranks get the chief's answer."""
        context = self._trial.context
        left = (self.params.get("steps") or batches) - batches
        batch_s = (time.monotonic() - self._epoch_started) / batches
        now = datetime.now(timezone.utc)
        fits = ends_in_time(now, context.preempt.deadline, left, batch_s)
        return bool(context.distributed.broadcast(fits))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._cut_off:
            return
        self._epochs = epoch + 1
        found = dict(logs or {})
        validation = {n: v for n, v in found.items() if n.startswith(_VALIDATION_PREFIX)}
        training = {n: v for n, v in found.items() if n not in validation}
        self._report(TRAINING, training, epochs=self._epochs)
        if validation:
            self._report(VALIDATION, validation, epochs=self._epochs)
        self._trial.report_progress(self._epochs, self.params.get("epochs") or 0)
        if self._trial.should_stop():
            self.model.stop_training = True
        if self._trial.preempted or self._epochs % self._save_every == 0:
            self._save()

    def on_train_end(self, logs: Any = None) -> None:
        if not self._trial.preempted:
            self._save()

    def _report(self, group: str, metrics: dict[str, Any], *, epochs: float) -> None:
        time_metrics = {"batches": self._steps, "epochs": epochs}
        self._trial.report(group, self._steps, {**metrics, **time_metrics})

    def _save(self) -> None:
        if not self._trial.is_chief or self._saved == self._epochs:
            return
        metadata = {"steps_completed": self._steps, "epochs_completed": self._epochs}
        with self._trial.context.checkpoint.store_path(metadata) as (path, _):
            self.model.save_weights(path / _FILE)
        self._saved = self._epochs
