"""What a trial tells the master about its training, and what it may ask."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windlass.base.errors import InvalidArgument, NotFound
from windlass.core._metrics import MetricsShipper
from windlass.core._session import TaskSession
from windlass.core._tensorboard import TensorboardFiles, TensorboardMode
from windlass.sdk.wire import to_wire

log = logging.getLogger("windlass.core")

TRAINING = "training"
VALIDATION = "validation"


class EarlyExitReason(enum.Enum):
    INVALID_HP = "EXITED_REASON_INVALID_HP"
    """These hyperparameters cannot be trained: the searcher replaces the trial."""
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class InvalidHP(Exception):
    """Raise inside `with core.init()` to say that these hyperparameters make no sense; the trial ends cleanly."""


class TrainContext:
    """`core_context.train` of a trial on the cluster."""

    def __init__(
        self,
        session: TaskSession,
        trial_id: int,
        experiment_id: int,
        metrics: MetricsShipper,
        tensorboard_mode: TensorboardMode,
        tensorboard: TensorboardFiles,
        after_report: Callable[[], None] = lambda: None,
    ) -> None:
        self._session = session
        self._trial_id = trial_id
        self._experiment_id = experiment_id
        self._metrics = metrics
        self._tensorboard_mode = tensorboard_mode
        self._tensorboard = tensorboard
        self._after_report = after_report

    def set_status(self, status: str) -> None:
        """A short word for people on what the trial is doing."""
        self._session.post(f"/api/v1/trials/{self._trial_id}/runner/metadata", {"state": status})

    def report_training_metrics(
        self,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None = None,
    ) -> None:
        self._report(TRAINING, steps_completed, metrics, batch_metrics)

    def report_validation_metrics(self, steps_completed: int, metrics: dict[str, Any]) -> None:
        """The searcher reads its metric out of these. None is refused; bytes are left out with a warning."""
        empty = [name for name, value in metrics.items() if value is None]
        if empty:
            raise ValueError(f"validation metrics {empty} are None")
        opaque = [n for n, value in metrics.items() if isinstance(value, bytes | bytearray)]
        if opaque:
            log.warning("validation metrics %s are bytes and are left out", opaque)
        self._report(
            VALIDATION, steps_completed, {n: v for n, v in metrics.items() if n not in opaque}, None
        )

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Metrics of any group; the names training and validation are the built-in ones. No dots in `group`."""
        if not group or "." in group:
            raise ValueError(f"{group!r} is not a metric group: it must not be empty or hold a dot")
        self._report(group, steps_completed, metrics, None)

    def _report(
        self,
        group: str,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None,
    ) -> None:
        # Converted here, not in the thread: the caller may change its dictionaries afterwards.
        plain: dict[str, Any] = to_wire(metrics)
        batches: list[dict[str, Any]] | None = to_wire(batch_metrics)
        log.info("%s metrics at step %s: %s", group, steps_completed, plain)
        self._metrics.report(group, int(steps_completed), plain, batches)
        self._after_report()

    def report_progress(self, progress: float) -> None:
        """The part of this trial's training that is done, from 0 to 1."""
        if not 0 <= progress <= 1:
            raise ValueError(f"progress is a fraction from 0 to 1, not {progress}")
        self._session.post(
            f"/api/v1/trials/{self._trial_id}/progress", {"progress": progress, "is_raw": True}
        )

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        body = {"reason": EarlyExitReason(reason).value}
        try:
            self._session.post(f"/api/v1/trials/{self._trial_id}/early_exit", body)
        except InvalidArgument as refused:
            log.warning("the master did not take the early exit: %s", refused)

    def get_experiment_best_validation(self) -> float | None:
        """The best searcher metric of the whole experiment so far; None before the first validation."""
        path = f"/api/v1/experiments/{self._experiment_id}/searcher/best_searcher_validation_metric"
        try:
            return float(self._session.get(path)["metric"])
        except NotFound:
            return None

    def set_metadata(self, metadata: dict[str, Any]) -> dict[str, Any] | None:
        """Replace the metadata of this run. Returns what the master stored."""
        body = {"runId": self._trial_id, "metadata": metadata}
        return self._session.post(f"/api/v1/runs/{self._trial_id}/metadata", body).get("metadata")

    def get_metadata(self) -> dict[str, Any] | None:
        return self._session.get(f"/api/v1/runs/{self._trial_id}/metadata").get("metadata")

    def get_tensorboard_path(self) -> Path:
        """Where to write TensorBoard files that shall be kept."""
        return self._tensorboard.directory

    def upload_tensorboard_files(
        self,
        selector: Callable[[Path], bool] = lambda _: True,
        mangler: Callable[[Path, int], Path] = lambda path, _: path,
    ) -> None:
        """Copy TensorBoard files beside the checkpoints. `mangler(path, rank)` names the copy. MANUAL mode only."""
        if self._tensorboard_mode is TensorboardMode.AUTO:
            raise RuntimeError("upload_tensorboard_files() is for TensorboardMode.MANUAL")
        self._tensorboard.sync(selector, mangler)


class DummyTrainContext(TrainContext):
    """`core_context.train` off the cluster: reports go to the log."""

    def __init__(self, tensorboard_path: Path | None = None) -> None:
        self._directory = tensorboard_path or Path("tensorboard")
        self._metadata: dict[str, Any] | None = None

    def set_status(self, status: str) -> None:
        log.info("status: %s", status)

    def _report(
        self,
        group: str,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None,
    ) -> None:
        log.info("%s metrics at step %s: %s", group, steps_completed, to_wire(metrics))

    def report_progress(self, progress: float) -> None:
        if not 0 <= progress <= 1:
            raise ValueError(f"progress is a fraction from 0 to 1, not {progress}")
        log.info("progress: %.3f", progress)

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        log.info("early exit: %s", EarlyExitReason(reason).name)

    def get_experiment_best_validation(self) -> float | None:
        return None

    def set_metadata(self, metadata: dict[str, Any]) -> dict[str, Any] | None:
        self._metadata = dict(to_wire(metadata))
        return self._metadata

    def get_metadata(self) -> dict[str, Any] | None:
        return self._metadata

    def get_tensorboard_path(self) -> Path:
        return self._directory

    def upload_tensorboard_files(
        self,
        selector: Callable[[Path], bool] = lambda _: True,
        mangler: Callable[[Path, int], Path] = lambda path, _: path,
    ) -> None:
        log.info("TensorBoard files stay in %s", self._directory)
