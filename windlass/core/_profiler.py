"""`core_context.profiler`: reports how busy the machine of a trial is, from one thread on each machine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from windlass.base.errors import WindlassError
from windlass.core._distributed import DistributedContext
from windlass.core._info import ClusterInfo
from windlass.core._session import TaskSession

if TYPE_CHECKING:
    from windlass.core._usage import Measured, Reader

log = logging.getLogger("windlass.core")

_STOP_S = 5.0
"""How long the end of a trial waits for a report under way: measurements are not worth more."""


class ProfilerContext:
    """Off until `on()`, or until the context starts where the configuration says `profiling: {enabled: true}`."""

    def __init__(
        self, session: TaskSession, info: ClusterInfo, distributed: DistributedContext
    ) -> None:
        self._session = session
        self._info = info
        self._measures = distributed.local_rank == 0
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        if (self._info.trial.config.get("profiling") or {}).get("enabled"):
            self.on()

    def on(self, sampling_interval: float = 1, samples_per_report: int = 10) -> None:
        """Measure every so many seconds, and report the means of so many measurements. Again: does nothing.

        Every rank may call it; the first one of each machine measures.
        """
        if sampling_interval < 0.1:
            raise ValueError(f"sampling_interval must be 0.1 s or more, not {sampling_interval}")
        if samples_per_report < 1:
            raise ValueError(f"samples_per_report must be 1 or more, not {samples_per_report}")
        if self._thread is not None or not self._measures:
            return
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run,
            args=(self._stopped, sampling_interval, samples_per_report),
            name="windlass-profiler",
            daemon=True,
        )
        self._thread.start()

    def off(self) -> None:
        """Stop. What has not been reported is dropped."""
        if self._thread is not None:
            self._stopped.set()
            self._thread.join(_STOP_S)
            self._thread = None

    def close(self) -> None:
        self.off()

    def _run(self, stopped: threading.Event, interval_s: float, per_report: int) -> None:
        resources = self._info.resources_info
        readers = _readers(resources.gpu_uuids if resources else None)
        samples: dict[str, list[Measured]] = {group: [] for group in readers}
        failed: set[str] = set()
        while readers and not stopped.wait(interval_s):
            for group, read in readers.items():
                try:
                    samples[group].append(read())
                except Exception:  # of a driver, or a file system that is gone: training goes on
                    if group not in failed:
                        log.warning("cannot measure %s", group, exc_info=True)
                    failed.add(group)
                    samples[group].append({})
            if len(samples[next(iter(readers))]) == per_report:
                if not self._report(stopped, samples):
                    return
                samples = {group: [] for group in readers}

    def _report(self, stopped: threading.Event, samples: Mapping[str, list[Measured]]) -> bool:
        """False where the master does not want any."""
        from windlass.core._usage import averaged

        trial = self._info.trial
        now = datetime.now(timezone.utc).isoformat()
        for group, measured in samples.items():
            if stopped.is_set():
                return False
            if not (means := averaged(measured)):
                continue
            body = {
                "group": group,
                "metrics": {
                    "metrics": {"avgMetrics": {self._info.agent_id: means}, "batchMetrics": None},
                    "trialId": trial.trial_id,
                    "trialRunId": trial.trial_run_id,
                    "stepsCompleted": None,
                    "reportTime": now,
                },
            }
            try:
                self._session.post(f"/api/v1/trials/{trial.trial_id}/metrics", body)
            except (WindlassError, OSError) as problem:
                if not stopped.is_set():
                    log.warning("profiling stops: %s", problem)
                return False
        return True


class DummyProfilerContext(ProfilerContext):
    """`core_context.profiler` off the cluster: does nothing."""

    def __init__(self) -> None:
        pass

    def start(self) -> None:
        pass

    def on(self, sampling_interval: float = 1, samples_per_report: int = 10) -> None:
        del sampling_interval, samples_per_report
        log.info("there is no profiling off the cluster")

    def off(self) -> None:
        pass


def _readers(gpu_uuids: list[str] | None) -> dict[str, Reader]:
    from windlass.core import _usage

    readers: dict[str, Reader] = {}
    try:
        readers.update(_usage.machine_readers())
    except ImportError:
        log.warning("profiling measures no CPU, memory, disk and network: install psutil")
    if (gpus := _usage.gpu_reader(gpu_uuids)) is not None:
        readers["gpu"] = gpus
    return readers
