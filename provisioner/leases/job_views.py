"""A batch job of ours as it is shown, whoever asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from provisioner.batch.base import JobPhase


class JobPurpose(StrEnum):
    RUN = "run"
    """It was asked for one run, and ends with it."""
    MACHINES = "machines"
    """Its nodes are machines of an elastic pool."""


class JobStage(StrEnum):
    SUBMITTING = "submitting"
    """The site has not said that it took it."""
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    """Suspended by the site."""
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobView:
    """One that is not over. Times are seconds since the epoch."""

    name: str
    """At the site."""
    system: str
    """slurm or pbs."""
    job_id: str
    """Empty: the site has not said that it took it."""
    pool: str
    queue: str
    """The partition or queue; empty: the site's default."""
    purpose: JobPurpose
    stage: JobStage
    site_state: str
    """In the site's own word; empty: it has said nothing yet."""
    reason: str
    """Why it waits, or is being ended; empty: it runs."""
    nodes: int
    slots: int
    """Of all its nodes."""
    node_names: tuple[str, ...]
    """Empty: it has none yet."""
    walltime_s: float | None
    """None: the site's default."""
    created_at: float
    starts_at: float | None
    """When it started, or as the site expects."""
    ends_at: float | None
    """When its time limit ends it."""
    user: str = ""
    """Of the site; empty: the master's own."""
    account: str = ""
    """Which pays, where the site says that."""
    allocation_id: str = ""
    """The run that it was asked for; empty: it was not for one."""
    agents: tuple[str, ...] = ()
    """Those on its nodes are called so."""


_STAGES = {
    JobPhase.QUEUED: JobStage.QUEUED,
    JobPhase.STARTING: JobStage.STARTING,
    JobPhase.RUNNING: JobStage.RUNNING,
    JobPhase.PAUSED: JobStage.PAUSED,
    JobPhase.ENDING: JobStage.ENDING,
    JobPhase.ENDED: JobStage.ENDING,
}


def stage_of(phase: JobPhase | None, *, is_taken: bool, ends: bool) -> JobStage:
    """`phase` None: the site has not told of it. `ends`: nobody wants it any more."""
    if ends:
        return JobStage.ENDING
    if not is_taken:
        return JobStage.SUBMITTING
    return JobStage.QUEUED if phase is None else _STAGES[phase]
