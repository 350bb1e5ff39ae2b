"""Preemption: a thread listens to the master, training code asks when it suits it."""

from __future__ import annotations

import enum
import logging
import threading
import time
from datetime import datetime

from windlass.base.errors import WindlassError
from windlass.core._distributed import DistributedContext
from windlass.core._session import TaskSession

log = logging.getLogger("windlass.core")

LONG_POLL_S = 60
RETRY_S = 10.0
"""After a failed poll. Not shorter: thousands of trials may be asking a master that has just come back."""
_MIN_ROUND_S = 1.0
"""A poll answered "no" at once must not make the watcher spin."""


class PreemptMode(enum.Enum):
    """Who may, or must, call `should_preempt()`."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    """All ranks call in step and get the chief's answer, so all stop at the same point. The default."""
    ChiefOnly = "CHIEF_ONLY"
    """Only the chief may call."""
    WorkersAskMaster = "WORKERS_ASK_MASTER"
    """Each rank asks the master for itself; answers may differ for a moment."""


class _Watcher:
    """Long-polls the master until it says yes."""

    def __init__(self, session: TaskSession, allocation_id: str) -> None:
        self._session = session
        self._path = f"/api/v1/allocations/{allocation_id}/signals/preemption"
        self._answered = threading.Event()
        self._quit = threading.Event()
        self._preempt = False
        self.deadline: datetime | None = None
        self.reason: str | None = None
        self._thread = threading.Thread(target=self._run, name="windlass-preempt", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._quit.set()
        self._answered.set()

    def should_preempt(self) -> bool:
        """Blocks only until the first answer of the master."""
        self._answered.wait()
        return self._preempt

    def _run(self) -> None:
        self._poll(0)
        self._answered.set()
        while not self._preempt and not self._quit.is_set():
            asked_at = time.monotonic()
            answered = self._poll(LONG_POLL_S)
            rest = _MIN_ROUND_S - (time.monotonic() - asked_at) if answered else RETRY_S
            if not self._preempt and rest > 0:
                self._quit.wait(rest)

    def _poll(self, seconds: int) -> bool:
        """Ask once. False if the master could not be asked."""
        try:
            answer = self._session.request(
                "GET",
                self._path,
                query={"timeout_seconds": seconds},
                timeout_s=seconds + 10,
                retry=False,
            )
        except (WindlassError, ValueError) as problem:
            if not self._quit.is_set():
                log.warning("cannot ask whether to preempt: %s", problem)
            return False
        self.deadline = _time(answer.get("deadline"))
        self.reason = answer.get("reason") or None
        self._preempt = answer.get("preempt") is True
        return True


def _time(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None


class PreemptContext:
    """`core_context.preempt` of a trial on the cluster."""

    def __init__(
        self,
        session: TaskSession,
        allocation_id: str,
        dist: DistributedContext,
        preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    ) -> None:
        self._session = session
        self._allocation_id = allocation_id
        self._dist = dist
        self._mode = PreemptMode(preempt_mode)
        self._started = False
        self._acknowledged = False
        watches = dist.rank == 0 or self._mode is PreemptMode.WorkersAskMaster
        self._watcher = _Watcher(session, allocation_id) if watches else None

    def start(self) -> PreemptContext:
        if self._started:
            raise RuntimeError("PreemptContext.start() was called twice")
        self._started = True
        if self._watcher is not None:
            self._watcher.start()
        return self

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()

    def __enter__(self) -> PreemptContext:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """True when the task should save a checkpoint and exit.

        The first True is acknowledged to the master, which then runs the task again later; without an acknowledgement
        a clean exit means that the work is complete. Pass `auto_ack=False` if you may decide to go on, and call
        `acknowledge_preemption_signal()` yourself when you do stop.
        """
        if not self._started:
            raise RuntimeError("should_preempt() was called before PreemptContext.start()")
        if self._dist.rank != 0 and self._mode is PreemptMode.ChiefOnly:
            raise RuntimeError(
                f"should_preempt() was called by rank {self._dist.rank} in mode ChiefOnly"
            )
        preempt = self._watcher.should_preempt() if self._watcher is not None else False
        if preempt and auto_ack and not self._acknowledged:
            self.acknowledge_preemption_signal()
        if self._mode is PreemptMode.WorkersAskChief:
            preempt = bool(self._dist.broadcast(preempt))
        return preempt

    @property
    def deadline(self) -> datetime | None:
        """When the task will be killed, if it was told to stop: save a checkpoint and exit before.

        None as long as nothing is known: no preemption, or none with a limit; on ranks that do not ask the master
        themselves; off the cluster; with a master that is not Windlass.
        """
        return self._watcher.deadline if self._watcher is not None else None

    @property
    def reason(self) -> str | None:
        """Why the task was told to stop, in words; None where `deadline` is."""
        return self._watcher.reason if self._watcher is not None else None

    def acknowledge_preemption_signal(self) -> None:
        """Tell the master that this task stops before it is done, and wants to be run again."""
        self._session.post(f"/api/v1/allocations/{self._allocation_id}/signals/ack_preemption")
        self._acknowledged = True


class DummyPreemptContext(PreemptContext):
    """`core_context.preempt` off the cluster: never, but with the same calling rules."""

    def __init__(
        self, dist: DistributedContext, preempt_mode: PreemptMode = PreemptMode.WorkersAskChief
    ) -> None:
        self._dist = dist
        self._mode = PreemptMode(preempt_mode)
        self._started = False
        self._acknowledged = False
        self._watcher = None

    def acknowledge_preemption_signal(self) -> None:
        log.info("preemption acknowledged")
