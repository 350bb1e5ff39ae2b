"""Lightning on the cluster: a callback for its Trainer.

callback = TrialCallback(core_context)
trainer = Trainer(..., callbacks=[callback])
trainer.fit(model, ..., ckpt_path=callback.latest_checkpoint())
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windlass.core._context import Context
from windlass.core._framework_trial import (
    TRAINING,
    VALIDATION,
    FrameworkTrial,
    missing_framework,
)

try:
    from lightning.pytorch import Callback  # pyright: ignore[reportMissingImports]
    from lightning.pytorch.loggers.logger import Logger  # pyright: ignore[reportMissingImports]
    from torch.utils.data import DataLoader  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as missing:
    raise missing_framework(missing, "lightning") from missing

__all__ = ["ResumableDataLoader", "TrialCallback"]
_FILE = "lightning.ckpt"
_DOWNLOADS = "latest-checkpoint"
"""In the working directory, which is the container's own."""


class TrialCallback(Callback):  # type: ignore[misc]
    """Reports what modules log, saves checkpoints, and stops training at a step when the cluster says so.

    Metrics are reported when the Trainer logs them (`log_every_n_steps`, and after each validation), with `batches` and
    `epochs` beside them. A checkpoint is saved after each validation, at the end, before a preemption, and every
    `save_every` steps.
    """

    def __init__(self, context: Context, *, save_every: int | None = None) -> None:
        self._trial = FrameworkTrial(context)
        self._save_every = save_every
        self._saved = -1

    @property
    def preempted(self) -> bool:
        """Whether training stopped because the cluster said so: the program should end."""
        return self._trial.preempted

    def latest_checkpoint(self) -> str | None:
        """Where this trial goes on, as `Trainer.fit(ckpt_path=...)` takes it. All ranks call."""
        folder = Path(_DOWNLOADS).absolute()
        return None if self._trial.fetch(folder) is None else str(folder / _FILE)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if not any(isinstance(logger, _Reports) for logger in trainer.loggers):
            trainer.loggers = [*trainer.loggers, _Reports(self._trial, trainer)]

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._saved = trainer.global_step  # what it went on from is stored

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        step = trainer.global_step
        stop = self._trial.should_stop()
        if stop or (self._save_every and step % self._save_every == 0):
            self._save(trainer)
        if stop:
            _stop(trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._save(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._save(trainer)

    def _save(self, trainer: Any) -> None:
        """Lightning writes on the chief alone, or each rank its part: all ranks call."""
        step = trainer.global_step
        if step == self._saved or trainer.sanity_checking or trainer.state.fn != "fit":
            return
        context = self._trial.context
        metadata = {"steps_completed": step}
        several = context.distributed.size > 1
        with context.checkpoint.store_path(metadata, shard=several) as (path, _):
            trainer.save_checkpoint(path / _FILE)
        self._saved = step


def _stop(trainer: Any) -> None:
    """At this step, whatever `min_epochs` and `min_steps` say, and without the validation of an early stop."""
    trainer.limit_val_batches = 0
    trainer.fit_loop.min_epochs = 0
    trainer.fit_loop.epoch_loop.min_steps = None
    trainer.should_stop = True


class _Reports(Logger):  # type: ignore[misc]
    """What a Trainer logs goes to the master: only loggers are told when that is."""

    def __init__(self, trial: FrameworkTrial, trainer: Any) -> None:
        self._trial = trial
        self._trainer = trainer

    @property
    def name(self) -> str:
        return "windlass"

    @property
    def version(self) -> str:
        return ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The master has them."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        trainer = self._trainer
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        done = trainer.global_step
        group = VALIDATION if trainer.validating else TRAINING
        if self._trial.preempted and done % trainer.log_every_n_steps:
            return  # Lightning logs once more where it stops: the next run passes here
        self._trial.report(group, done, {**metrics, "batches": done, "epochs": _epochs(trainer)})
        self._trial.report_progress(done, trainer.estimated_stepping_batches)


def _epochs(trainer: Any) -> float:
    """With the part of the one that has begun, if the length of an epoch is known."""
    begun = trainer.fit_loop.epoch_loop.batch_progress.current.processed
    return float(trainer.current_epoch + begun / (trainer.num_training_batches or math.inf))


class ResumableDataLoader(DataLoader):  # type: ignore[misc]
    """What Lightning goes on with in the middle of an epoch at the next batch; with others it begins the data again.

    Batches of before are read and dropped. Their order must be that of before: not `shuffle=True`, but the sampler of
    `windlass.core.data`, say.
    """

    _done = 0
    """Batches of this epoch that have been handed out."""
    _begin = 0
    """The batch to begin the next iteration with."""

    def __iter__(self) -> Iterator[Any]:
        self._done, self._begin = self._begin, 0
        for batch in itertools.islice(super().__iter__(), self._done, None):
            self._done += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"batches": self._done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._begin = state["batches"] % len(self)
