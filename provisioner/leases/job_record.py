"""What is written down of one job that a site is asked for, and what follows from each answer. Pure.

| what happens | what is noted |
| --- | --- |
| `called`: committed before the site is asked to take it | its command may run; not absent |
| `submitted`: the site took it | its id; not absent |
| `unanswered`: nobody knows whether it did | whether its command may still run; else as `in_doubt` |
| `told_never`: it is refused, or waits | since when the site says that it will never run it; sure after `SURE_S` |
| `in_doubt`: the site was not heard | what it will never do, it has to say anew |
| `listed` | its id; not absent; as `told_never` |
| `missed`: the site, asked for it alone, does not know it | since when |

What is missed for `PROOF_S`, or `ARRIVAL_S` while its command may run, `is_surely_absent`: a job with an id is over
(`end_of_missed`), one without was never taken, and may be submitted. An answer that does not come never ends a job.

How far a job is, by who asked for it:

| | dispatch: `LeaseState` | a pilot's fields |
| --- | --- | --- |
| to be submitted, or the site was perhaps asked | INTENT | no `job_id` |
| the site has it | QUEUED | `job_id` |
| nobody wants it any more: it is to end | ENDING | `cancelled` |
| over at the site; its agents' last words are being told | OVER | `over_at` |
| all is told | SETTLED, then forgotten | `ended_at`, forgotten later |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from provisioner.batch.base import (
    ARRIVAL_S,
    PROOF_S,
    SURE_S,
    EndCause,
    JobReport,
    NoAnswer,
)
from provisioner.batch.job_files import OwnRecord

NEAR_LIMIT_S = 30.0
"""A job that was told to end so shortly before its time limit, or later, was for that: clocks differ."""
ENDS_WITHIN_S = 60.0
"""A site that ends a job asks it first, and kills it so much later at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job. Times are seconds since the epoch."""

    tag: str
    """What it is known by here; its agents are called `tag-0`, `tag-1`, ..."""
    job_id: str | None = None
    """None: the site was perhaps asked, and has not said that it took it."""
    may_run: bool = False
    """The command that submits it may still run: it was called, and nobody has seen its end."""
    absent_since: float | None = None
    """Since when the site, asked, does not know it."""
    never_since: float | None = None
    """Since when the site says, each time, that it will never run it."""
    is_hopeless: bool = False
    """That is sure."""
    ends_at: float | None = None
    """When its time limit ends it."""
    cause: EndCause | None = None
    """Why it ended."""

    @property
    def job_name(self) -> str:
        """At the site."""
        return self.tag

    @property
    def user(self) -> str:
        """Whose job it is there. Empty: the master's own."""
        return ""


J = TypeVar("J", bound=JobRecord)


def agents_of(tag: str, nodes: int) -> tuple[str, ...]:
    """Of each node of that job."""
    return tuple(f"{tag}-{number}" for number in range(nodes))


def tag_of(agent_id: str) -> str:
    return agent_id.rpartition("-")[0]


def called(job: J) -> J:
    return replace(job, may_run=True, absent_since=None)


def submitted(job: J, job_id: str) -> J:
    return replace(job, job_id=job_id, absent_since=None)


def unanswered(job: J, why: NoAnswer) -> J:
    return replace(in_doubt(job), may_run=job.may_run and why.may_run)


def in_doubt(job: J) -> J:
    """The site may just have started."""
    if job.never_since is None and not job.is_hopeless:
        return job
    return replace(job, never_since=None, is_hopeless=False)


def told_never(job: J, now: float, is_final: bool) -> J:
    """`is_final`: the site says that it will not run it, unless somebody changes something."""
    since = (job.never_since or now) if is_final else None
    sure = since is not None and now - since >= SURE_S
    return replace(job, never_since=since, is_hopeless=sure)


def listed(job: J, report: JobReport, now: float) -> J:
    return told_never(submitted(job, report.job_id), now, bool(report.never))


def missed(job: J, now: float) -> J:
    return job if job.absent_since is not None else replace(job, absent_since=now)


def is_surely_absent(
    job: JobRecord, now: float, *, proof_s: float = PROOF_S, arrival_s: float = ARRIVAL_S
) -> bool:
    needed_s = arrival_s if job.job_id is None and job.may_run else proof_s
    return job.absent_since is not None and now - job.absent_since >= needed_s


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended."""

    at: float
    cause: EndCause = EndCause.UNKNOWN
    exit_code: int | None = None
    nodes: tuple[str, ...] = ()


def end_of(report: JobReport, now: float) -> JobEnd:
    """The site says that it is over."""
    return JobEnd(
        at=min(now, report.ends_at or now),
        cause=report.cause or EndCause.UNKNOWN,
        exit_code=report.exit_code,
        nodes=report.nodes,
    )


def end_of_missed(
    job: JobRecord,
    now: float,
    own: OwnRecord,
    *,
    system: str,
    waited: bool,
    proof_s: float = PROOF_S,
) -> JobEnd | None:
    """Of a job with an id; None: it is not sure that it is over.

    `own`: what it noted; PBS without history forgets a job at its end. `waited`: it had no nodes when it was last seen.
    """
    if own.told_to_end_at is not None:
        at_limit = job.ends_at is not None and own.told_to_end_at >= job.ends_at - NEAR_LIMIT_S
        cause = EndCause.TIMEOUT if at_limit else EndCause.CANCELLED
        return JobEnd(at=min(now, own.told_to_end_at), cause=cause)
    if not is_surely_absent(job, now, proof_s=proof_s):
        return None
    # A job that PBS cannot start is held, and stays known: only somebody's qdel takes it out of the queue.
    deleted = system == "pbs" and waited and not own.begun
    return JobEnd(at=now, cause=EndCause.CANCELLED if deleted else EndCause.UNKNOWN)


def bad_ends_count_before(cause: EndCause | None, ended_at: float | None) -> float:
    """Tasks that ended badly from then on may have ended with their job, which signals all of its processes."""
    if cause in (EndCause.OK, EndCause.FAILED) or ended_at is None:
        return float(2**32)
    return ended_at - ENDS_WITHIN_S


def end_words(what: str, cause: EndCause | None, nodes: Sequence[str], code: int | None) -> str:
    """How a job ended, for people."""
    where = f" on {', '.join(nodes)}" if nodes else ""
    match cause:
        case EndCause.TIMEOUT:
            return f"{what}{where} reached its time limit"
        case EndCause.PREEMPTED:
            return f"{what}{where} was preempted by the site"
        case EndCause.NODE_FAILED:
            return f"{what}: a node of{where.removeprefix(' on') or ' its'} failed"
        case EndCause.OUT_OF_MEMORY:
            return f"{what}{where} needed more memory than it had"
        case EndCause.CANCELLED:
            return f"{what}{where} was cancelled at the site"
        case EndCause.LAUNCH_FAILED:
            return f"{what}{where} could not be started by the site"
        case EndCause.FAILED:
            return f"{what}{where} failed with exit code {code}"
        case EndCause.OK:
            return f"{what}{where} ended by itself"
    return f"{what}{where} is not known to the site any more"
