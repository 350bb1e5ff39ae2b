"""Jobs of a trace at work: how far they are, what an interruption costs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from master.core.scheduler.types import Request, Running
from provisioner.simulator.trace import TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkModel:
    """What all jobs have in common. Seconds."""

    checkpoint_every_s: float = 1800.0
    checkpoint_s: float = 30.0
    """How long a job that is asked to leave takes to checkpoint."""
    restart_s: float = 60.0
    """How long a job that is started again takes until it goes on."""


@dataclass(slots=True, kw_only=True)
class JobProgress:
    """One job over all its runs. Times are seconds since the beginning of the trace."""

    job: TraceJob
    pool: str
    """Its own."""
    queued_s: float
    """Since when it waits; of one that runs: since when it waited."""
    done_s: float = 0.0
    """Work that a checkpoint holds."""
    runs: int = 0
    away_runs: int = 0
    """Those in pools that its own falls back to."""
    ran_in: str = ""
    """The pool of its last run."""
    waited_s: float = 0.0
    """In all waits."""
    first_start_s: float | None = None
    ended_s: float | None = None
    redone_s: float = 0.0
    """Work that was lost with a machine and done again, and time spent on starting again."""
    usd: float = 0.0
    lost_usd: float = 0.0
    """Its share for redone work."""

    @property
    def request_id(self) -> str:
        """Of its next run."""
        return f"{self.job.job_id}.{self.runs + 1}"

    def request(self, start: float, model: WorkModel) -> Request:
        """`start` is the time of the beginning of the trace."""
        return Request(
            id=self.request_id,
            job_id=self.job.job_id,
            slots=self.job.slots,
            requested=start + self.queued_s,
            single_agent=self.job.single_agent,
            preemptible=self.job.preemptible,
            leave_s=2 * model.checkpoint_s,
        )


@dataclass(slots=True, kw_only=True)
class SimulatedRun:
    """One run of a job on some slots."""

    progress: JobProgress
    running: Running
    started_s: float
    overhead_s: float
    """From its start until it works."""
    usd_per_hour: float
    """Its share of the machines."""
    asked_s: float | None = None
    """When it was asked to leave: from then on it checkpoints."""

    @property
    def placement(self) -> Mapping[str, int]:
        return self.running.placement

    @property
    def ends_s(self) -> float:
        """When it will be done."""
        return (
            self.started_s + self.overhead_s + self.progress.job.duration_s - self.progress.done_s
        )

    def worked_s(self, until_s: float) -> float:
        return max(0.0, until_s - self.started_s - self.overhead_s)

    def checkpoint_s(self, now_s: float, model: WorkModel) -> float:
        """When it wrote its last checkpoint: each so much work, and when it began."""
        every = model.checkpoint_every_s
        return self.started_s + self.overhead_s + self.worked_s(now_s) // every * every

    def book(self, now_s: float, *, kept_s: float) -> None:
        """It is over: `kept_s` of its work are kept, the rest is to be done again."""
        seconds = now_s - self.started_s
        lost_s = seconds - kept_s
        self.progress.done_s += kept_s
        self.progress.redone_s += lost_s
        self.progress.usd += self.usd_per_hour * seconds / 3600.0
        self.progress.lost_usd += self.usd_per_hour * lost_s / 3600.0
