"""Metric reports leave in order from one background thread, so that training does not wait for the master."""

from __future__ import annotations

import logging
import queue
import threading
from typing import Any

from windlass.base.errors import WindlassError
from windlass.core._session import TaskSession
from windlass.sdk.wire import Json

log = logging.getLogger("windlass.core")

QUEUE_SIZE = 1000
"""Reports that may wait. Then reporting blocks: better a slow trial than a lost or unbounded history."""
_PATIENCE_S = 10.0
"""How often somebody who waits for the queue is told so."""


class MetricsShipper:
    """Owns the thread. Only `report`, `flush` and `close` are called by training code's thread."""

    def __init__(self, session: TaskSession, trial_id: int, trial_run_id: int) -> None:
        self._session = session
        self._trial_id = trial_id
        self._trial_run_id = trial_run_id
        self._queue: queue.Queue[Json | None] = queue.Queue(QUEUE_SIZE)
        self._error: BaseException | None = None
        self._seen = False
        self._idle = threading.Condition()
        self._unsent = 0
        self._thread = threading.Thread(target=self._run, name="windlass-metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def report(
        self,
        group: str,
        steps_completed: int | None,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None = None,
    ) -> None:
        """Queue one report. `metrics` must already be plain JSON. Raises the error of an earlier report."""
        body: Json = {
            "group": group,
            "metrics": {
                "metrics": {"avgMetrics": metrics, "batchMetrics": batch_metrics},
                "trialId": self._trial_id,
                "trialRunId": self._trial_run_id,
                "stepsCompleted": steps_completed,
                "reportTime": None,
            },
        }
        self._raise_error()
        with self._idle:
            self._unsent += 1
        while True:
            try:
                self._queue.put(body, timeout=_PATIENCE_S)
                return
            except queue.Full:
                self._raise_error()
                log.warning("%d metric reports wait for the master", QUEUE_SIZE)

    def flush(self) -> None:
        """Return when every report so far has been accepted. Raises the error of one that was not."""
        self._await_idle()
        self._raise_error()

    def close(self) -> None:
        """Send what is left, end the thread. Raises the error of a report, unless somebody has seen it already."""
        self._await_idle()
        self._queue.put(None)
        self._thread.join()
        if not self._seen:
            self._raise_error()

    def _await_idle(self) -> None:
        with self._idle:
            while self._unsent:
                if not self._idle.wait(_PATIENCE_S):
                    log.info("waiting for the master to take %d metric reports", self._unsent)

    def _raise_error(self) -> None:
        if self._error is not None:
            self._seen = True
            raise self._error

    def _run(self) -> None:
        path = f"/api/v1/trials/{self._trial_id}/metrics"
        while (body := self._queue.get()) is not None:
            # After an error the rest is dropped: a history with a hole would mislead, and waiting again for each
            # report could take hours.
            if self._error is None:
                try:
                    self._session.post(path, body)
                except (WindlassError, OSError, TypeError, ValueError) as problem:
                    self._error = problem
            with self._idle:
                self._unsent -= 1
                self._idle.notify_all()
