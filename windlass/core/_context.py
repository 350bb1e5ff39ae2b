"""`core.init()`: puts the contexts together for where the program runs, on a cluster or not."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from windlass.base.errors import WindlassError
from windlass.core._checkpoint import CheckpointContext, LocalReporter, MasterReporter
from windlass.core._distributed import DistributedContext, DummyDistributedContext
from windlass.core._info import ClusterInfo, get_cluster_info
from windlass.core._metrics import MetricsShipper
from windlass.core._preempt import DummyPreemptContext, PreemptContext, PreemptMode
from windlass.core._profiler import DummyProfilerContext, ProfilerContext
from windlass.core._searcher import SearcherContext, Unit, parse_max_length
from windlass.core._session import TaskSession
from windlass.core._storage import build_storage
from windlass.core._tensorboard import TensorboardFiles, TensorboardMode, TensorboardSync
from windlass.core._train import DummyTrainContext, EarlyExitReason, InvalidHP, TrainContext
from windlass.storage import LocalStorage, Storage
from windlass.storage.opening import storage_section

log = logging.getLogger("windlass.core")

_ALERT_LEVELS = {"debug": "DEBUG", "info": "INFO", "warn": "WARNING", "error": "ERROR"}


class Context:
    """What `core.init()` gives: train, checkpoint, preempt, searcher, distributed, profiler, info."""

    def __init__(
        self,
        *,
        checkpoint: CheckpointContext,
        distributed: DistributedContext,
        preempt: PreemptContext,
        train: TrainContext,
        searcher: SearcherContext,
        profiler: ProfilerContext,
        info: ClusterInfo | None = None,
        session: TaskSession | None = None,
        metrics: MetricsShipper | None = None,
        tensorboard: TensorboardSync | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.distributed = distributed
        self.preempt = preempt
        self.train = train
        self.searcher = searcher
        self.profiler = profiler
        self.info = info
        self._session = session
        self._metrics = metrics
        self._tensorboard = tensorboard

    def start(self) -> None:
        self.preempt.start()
        if self._metrics is not None:
            self._metrics.start()
        if self._tensorboard is not None:
            self._tensorboard.start()
        self.profiler.start()

    def close(self) -> None:
        """Send what is left and hang up. Raises the error of a metric report that was refused."""
        with contextlib.ExitStack() as stack:
            if self._session is not None:
                stack.callback(self._session.close)
            stack.callback(self.distributed.close)
            if self._tensorboard is not None:
                stack.callback(self._tensorboard.close)
            if self._metrics is not None:
                stack.callback(self._metrics.close)
            stack.callback(self.preempt.close)
            stack.callback(self.profiler.close)

    def alert(
        self,
        title: str | None = None,
        description: str | None = None,
        level: str | None = "info",
    ) -> None:
        """Send an event to the webhooks of this trial. Levels: debug, info, warn, error."""
        if self._session is None or self.info is None or self.info.trial_info is None:
            raise ValueError("alert() needs a trial on a cluster")
        word = _ALERT_LEVELS.get(level or "info", "INFO")
        data = {
            "title": title or "",
            "description": description or "",
            "level": f"LOG_LEVEL_{word}",
        }
        trial = self.info.trial_info
        self._session.post(
            "/api/v1/webhooks/custom",
            {"data": data, "experimentId": trial.experiment_id, "trialId": trial.trial_id},
        )

    def __enter__(self) -> Context:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, InvalidHP):
            self.train.report_early_exit(EarlyExitReason.INVALID_HP)
        try:
            self.close()
        except (WindlassError, OSError) as problem:
            if exc is None:
                raise
            log.error("could not finish reporting: %s", problem)
        if isinstance(exc, InvalidHP):
            log.info("these hyperparameters are invalid: %s", exc)
            sys.exit(0)


def init(
    *,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> Context:
    """Build the Context for this process: `with core.init() as core_context: ...`.

    `distributed` is required when the task has more than one slot or container. `checkpoint_storage` overrides the
    experiment's: a directory, a URL (`s3://bucket/prefix`, `gs://...`), or a dictionary like the section of that name.
    Off the cluster the same program runs with checkpoints in a local directory and reports in the log (logger
    "windlass.core").
    """
    _dump_stacks_on_sigusr1()
    info = get_cluster_info()
    if info is None or info.task_type != "TRIAL":
        return _init_dummy(distributed, checkpoint_storage, preempt_mode, info)
    if distributed is None and (len(info.container_addrs) > 1 or len(info.slot_ids) > 1):
        raise ValueError(
            "this task has several slots: pass core.init(distributed=...), for example "
            "core.DistributedContext.from_torch_distributed()"
        )
    return _init_trial(
        info,
        distributed or DummyDistributedContext(),
        checkpoint_storage,
        preempt_mode,
        tensorboard_mode,
    )


def _init_trial(
    info: ClusterInfo,
    dist: DistributedContext,
    checkpoint_storage: str | dict[str, Any] | None,
    preempt_mode: PreemptMode,
    tensorboard_mode: TensorboardMode,
) -> Context:
    trial = info.trial
    used: str | Mapping[str, Any] = checkpoint_storage or trial.config["checkpoint_storage"]
    storage = build_storage(used, on_cluster=True, environ=os.environ)
    session = TaskSession.for_task(info)
    prepared = session.post(
        "/api/v1/runs/start", {"runId": trial.trial_id, "checkpointStorage": storage_section(used)}
    )
    metrics = MetricsShipper(session, trial.trial_id, trial.trial_run_id)
    tensorboard = TensorboardFiles(
        storage,
        (info.cluster_id, trial.experiment_id, trial.trial_id),
        info.allocation_id,
        dist.rank,
    )
    sync = None
    if tensorboard_mode is TensorboardMode.AUTO and dist.rank == 0:
        sync = TensorboardSync(tensorboard)
    look = sync.look if sync is not None else lambda: None

    def before_checkpoint() -> None:
        metrics.flush()
        look()

    train = TrainContext(
        session,
        trial.trial_id,
        trial.experiment_id,
        metrics,
        tensorboard_mode,
        tensorboard,
        after_report=look,
    )
    reporter = MasterReporter(
        session, info.task_id, info.allocation_id, prepared.get("storageId"), before_checkpoint
    )
    length, unit = parse_max_length(trial.config)
    return Context(
        checkpoint=CheckpointContext(dist, storage, reporter),
        distributed=dist,
        preempt=PreemptContext(session, info.allocation_id, dist, preempt_mode),
        train=train,
        searcher=SearcherContext(train, dist, length, unit),
        profiler=ProfilerContext(session, info, dist),
        info=info,
        session=session,
        metrics=metrics,
        tensorboard=sync,
    )


def _init_dummy(
    distributed: DistributedContext | None,
    checkpoint_storage: str | dict[str, Any] | None,
    preempt_mode: PreemptMode,
    info: ClusterInfo | None,
) -> Context:
    dist = distributed or DummyDistributedContext()
    if checkpoint_storage is None:
        storage: Storage = LocalStorage(local_checkpoint_dir())
        log.info("checkpoints go to %s", storage.where)
    else:
        storage = build_storage(checkpoint_storage, on_cluster=False, environ=os.environ)
    train = DummyTrainContext()
    return Context(
        checkpoint=CheckpointContext(dist, storage, LocalReporter(storage)),
        distributed=dist,
        preempt=DummyPreemptContext(dist, preempt_mode),
        train=train,
        searcher=SearcherContext(train, dist, 1, Unit.EPOCHS),
        profiler=DummyProfilerContext(),
        info=info,
    )


def local_checkpoint_dir() -> Path:
    """Where checkpoints go off the cluster."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "windlass" / "checkpoints"


def _dump_stacks_on_sigusr1() -> None:
    """`kill -USR1` shows where a hanging training program is."""
    with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
