"""The life of one batch job and of the agents on it: a lease. Pure.

    INTENT ──submitted──> QUEUED ──all agents joined, request granted──> (still QUEUED: the site has it)
      │ ^refused, later      │ over at the site          │ its request is over, or nobody wants it any more
      │ └────────┐           v                           v
      └──────────┴──> OVER <─────────────────────────ENDING
                        │ the pool has committed what that means, its directory is gone
                        v
                     SETTLED

INTENT is committed before the site is asked. What its answers say of the job is in `provisioner.leases.job_record`;
here is what follows for its request and its agents.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from master.core.reasons import Reason, ReasonKind
from provisioner.batch.base import EndCause, JobPhase, JobRefused, JobReport, NoAnswer
from provisioner.batch.dialects import DIALECTS
from provisioner.batch.job_files import JobShape, OwnRecord
from provisioner.batch.stages import begun, pending, utc
from provisioner.leases import job_record
from provisioner.leases.job_record import JobEnd, JobRecord, agents_of
from rm_backends.base import LossKind

Limited: TypeAlias = tuple[str, tuple[str, ...], str]
"""A pool, arguments and a user of the operating system: what a limit of the site is of."""
FIRST_RETRY_S = 10.0
LAST_RETRY_S = 600.0
PREPARE_S = 900.0
"""How long a job may run until all of its agents have joined."""
SHORT_WAY_OUT = "ask for what nodes have (slots_per_node, gpu_type), or have the site give jobs the GPUs they ask for"
ASK_AGAIN_S = 20.0
"""How long agents that were dismissed, and jobs that were cancelled, have to end."""


class LeaseState(StrEnum):
    INTENT = "intent"
    QUEUED = "queued"
    """The site has it: waiting, starting or running."""
    HALTED = "halted"
    """Somebody else cancelled it before it started: no other is submitted."""
    ENDING = "ending"
    OVER = "over"
    """At the site; what ran there is yet to be told of it."""
    SETTLED = "settled"
    """It was told, and nothing of it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(JobRecord):
    """One job, named by its tag. `ends_at` is as the site last said it."""

    pool: str
    allocation_id: str
    shape: JobShape
    created_at: float
    state: LeaseState = LeaseState.INTENT
    called_at: float | None = None
    """When the site was last asked to take it. None: not since it refused, or never."""
    next_try_at: float = 0.0
    tries: int = 0
    """Refusals of this job, and jobs for the same request that ended before it started."""
    short_before: int = 0
    """Of the jobs before it, in a row, those whose nodes had too few slots."""
    message: str = ""
    """What went wrong last."""
    kind: ReasonKind = ReasonKind.QUEUED
    way_out: str = ""
    """Of one that the site took, and will never start."""
    phase: JobPhase = JobPhase.QUEUED
    site_state: str = ""
    site_reason: str = ""
    words: str = ""
    starts_at: float | None = None
    running_since: float | None = None
    """When it was first seen running."""
    node_names: tuple[str, ...] = ()
    account: str = ""
    """Which pays, where the site says that."""
    granted: bool = False
    followed: bool = False
    """There is another one for its request, committed together with this."""
    end_why: str = ""
    asked_to_end_at: float | None = None
    exit_code: int | None = None
    ended_at: float | None = None

    @property
    def user(self) -> str:
        return self.shape.user

    @property
    def agents(self) -> tuple[str, ...]:
        return agents_of(self.tag, self.shape.nodes)

    @property
    def misplaced(self) -> bool:
        """It runs on a node that its request must not use: not every site can be told which."""
        running = self.phase is JobPhase.RUNNING and not self.granted
        return running and not set(self.shape.avoid).isdisjoint(self.node_names)

    @property
    def may_be_short(self) -> bool:
        """Its agents join, or have joined, and its request was not granted."""
        return (
            self.state is LeaseState.QUEUED and not self.granted and self.phase is JobPhase.RUNNING
        )

    @property
    def is_live(self) -> bool:
        """Its agents may join."""
        return self.state in (LeaseState.INTENT, LeaseState.QUEUED)

    @property
    def may_exist(self) -> bool:
        """The site may have a job of this name."""
        return self.job_id is not None or self.called_at is not None

    @property
    def pending_text(self) -> str:
        """Why it waits at the site. Empty: it does not."""
        if self.phase is not JobPhase.QUEUED:
            return ""
        why = self.site_reason or self.site_state or "submitted"
        return pending(shown(self), why, self.words, self.way_out)

    def lacks_agents(self, after_s: float, now: float) -> bool:
        """It has run for so long, and its agents have not all joined."""
        since, runs = self.running_since, self.phase is JobPhase.RUNNING
        return runs and not self.granted and since is not None and now - since > after_s

    @property
    def gpu_s(self) -> float | None:
        """What it was given: GPUs times seconds. None: it has not ended, or nobody knows."""
        if self.ended_at is None or self.starts_at is None or not self.node_names:
            return None
        return self.shape.nodes * self.shape.gpus_per_node * max(0, self.ended_at - self.starts_at)

    @property
    def waits_here(self) -> bool:
        """The site is not being asked to take it."""
        return self.state is LeaseState.INTENT and self.called_at is None

    def is_due(self, now: float) -> bool:
        """To be submitted."""
        return self.waits_here and self.next_try_at <= now


def limited(pool: str, shape: JobShape) -> Limited:
    """Limits are of users, and of accounts and QOS, which arguments name: one that is full holds up no other."""
    return pool, shape.arguments, shape.user


def serves(lease: Lease) -> bool:
    """Its request needs no other job."""
    return lease.state in (LeaseState.INTENT, LeaseState.QUEUED, LeaseState.HALTED)


def called(lease: Lease, now: float) -> Lease:
    """To be committed before the call."""
    return replace(job_record.called(lease), called_at=now)


def submitted(lease: Lease, job_id: str) -> Lease:
    state = LeaseState.QUEUED if lease.state is LeaseState.INTENT else lease.state
    return replace(job_record.submitted(lease, job_id), state=state, message="")


def refused(lease: Lease, why: JobRefused, now: float) -> Lease:
    lease = job_record.told_never(lease, now, why.final)
    soon = why.final and not lease.is_hopeless
    return replace(
        lease,
        called_at=None,
        tries=lease.tries + 1,
        next_try_at=now + pause_s(0 if soon else lease.tries),
        kind=why.kind,
        message=why.message,
    )


def not_called(lease: Lease) -> Lease:
    """The site was not asked after all."""
    return replace(lease, called_at=None)


def unanswered(lease: Lease, why: NoAnswer) -> Lease:
    return replace(job_record.unanswered(lease, why), message=why.message)


def pause_s(tries: int) -> float:
    return float(min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(tries, 10)))


def seen(lease: Lease, job: JobReport, now: float, said: str = "") -> Lease:
    """The site told of it. `said`: by its nodes, of why its agents have not joined."""
    if lease.granted and lease.is_live and job.phase is JobPhase.QUEUED:
        # The site would run it again, from its start and after a pause: what ran there goes on in another one.
        return unwanted(lease, f"job {job.job_id} was put back into the queue by the site")
    lease = replace(job_record.listed(submitted(lease, job.job_id), job, now), message=said)
    running = job.phase in (JobPhase.RUNNING, JobPhase.PAUSED)
    waits = job.phase is JobPhase.QUEUED
    lease = replace(
        lease,
        way_out=job.never,
        phase=job.phase,
        site_state=job.state,
        site_reason=job.reason,
        words=job.words,
        kind=job.kind if waits else ReasonKind.LAUNCHING,
        starts_at=job.starts_at,
        # Of a job that is being ended it is the time of that, and nothing can leave before it any more.
        ends_at=job.ends_at if running else lease.ends_at,
        node_names=job.nodes or lease.node_names,
        account=job.account or lease.account,
        running_since=lease.running_since or (now if running else None),
    )
    return over(lease, job_record.end_of(job, now)) if job.phase is JobPhase.ENDED else lease


def over(lease: Lease, end: JobEnd) -> Lease:
    return replace(
        lease,
        state=LeaseState.OVER,
        phase=JobPhase.ENDED,
        cause=end.cause,
        exit_code=end.exit_code,
        ended_at=end.at,
    )


def missed(lease: Lease, now: float, own: OwnRecord) -> Lease:
    """The site answered, and does not know it: it is over, was never taken, or is not there yet."""
    lease = job_record.missed(lease, now)
    if lease.job_id is None:
        return never_taken(lease) if job_record.is_surely_absent(lease, now) else lease
    waited = lease.phase is JobPhase.QUEUED
    end = job_record.end_of_missed(lease, now, own, system=lease.shape.system, waited=waited)
    return lease if end is None else over(lease, end)


def never_taken(lease: Lease) -> Lease:
    """The site surely has no job of that name: it may be submitted."""
    if lease.state is LeaseState.ENDING:
        return replace(lease, state=LeaseState.OVER, phase=JobPhase.ENDED)
    return replace(lease, called_at=None, absent_since=None)


def unwanted(lease: Lease, why: str) -> Lease:
    if lease.state in (LeaseState.OVER, LeaseState.SETTLED, LeaseState.ENDING):
        return lease
    if not lease.may_exist or lease.state is LeaseState.HALTED:
        return replace(lease, state=LeaseState.OVER, end_why=why)
    return replace(lease, state=LeaseState.ENDING, end_why=why)


def short_nodes(lease: Lease, slots: Mapping[str, int]) -> str:
    """Which of its nodes offer fewer slots than it asked for, in words; `slots`: of those that have joined."""
    wanted = lease.shape.slots_per_node
    short = [f"node {name} has {has} of {wanted}" for name, has in slots.items() if has < wanted]
    return f"job {lease.job_id}: {', '.join(short)} slots" if short else ""


def follower_of_short(lease: Lease, tag: str, slots: Mapping[str, int], now: float) -> Lease:
    """After a job whose nodes have too few slots: another, on other nodes where the site can be told of them."""
    short = {name for name, has in slots.items() if has < lease.shape.slots_per_node}
    avoid = {*lease.shape.avoid, *(short if _takes_exclusions(lease) else ())}
    follower = next_lease(lease, tag, "", now)
    message = short_nodes(lease, slots)
    shape = replace(lease.shape, avoid=tuple(sorted(avoid)))
    return replace(follower, shape=shape, message=message, short_before=lease.short_before + 1)


def ends_as_short(follower: Lease) -> bool:
    """Two nodes were short, or one was three times: it is not the node, and no further job helps."""
    return follower.short_before >= (2 if _takes_exclusions(follower) else 3)


def _takes_exclusions(lease: Lease) -> bool:
    """PBS cannot be told which nodes a job must not get."""
    return lease.shape.system == "slurm"


def next_lease(lease: Lease, tag: str, said: str, now: float) -> Lease:
    """After a job that ended before its request could start: another, later; or none, if somebody did not want it.

    `said`: the last line of its log.
    """
    halted = lease.cause is EndCause.CANCELLED
    pause = pause_s(lease.tries)
    text = f"{end_text(lease)}: {said}" if said and not halted else end_text(lease)
    return Lease(
        tag=tag,
        pool=lease.pool,
        allocation_id=lease.allocation_id,
        shape=lease.shape,
        created_at=now,
        state=LeaseState.HALTED if halted else LeaseState.INTENT,
        next_try_at=now + pause,
        tries=lease.tries + 1,
        kind=ReasonKind.NO_CAPACITY,
        message=text,
    )


def loss_of(lease: Lease) -> LossKind:
    """What its end means for what ran there."""
    if not lease.end_why and lease.cause is EndCause.CANCELLED:
        return LossKind.ON_PURPOSE
    return LossKind.TIME_LIMIT if lease.cause is EndCause.TIMEOUT else LossKind.MACHINE


def end_text(lease: Lease) -> str:
    """How its job ended, for people."""
    what = f"job {lease.job_id}" if lease.job_id else f"job {lease.tag}"
    if lease.misplaced:
        wrong = ", ".join(sorted(set(lease.shape.avoid) & set(lease.node_names)))
        return f"the site gave {what} {wrong}, which the log policies of its work exclude"
    return job_record.end_words(what, lease.cause, lease.node_names, lease.exit_code)


def shown(lease: Lease) -> str:
    """Its job, for people."""
    dialect = DIALECTS[lease.shape.system]
    where = f"{dialect.queue} {lease.shape.queue or 'of the site'}"
    return f"{dialect.name} job {lease.job_id} in {where}"


def explain(lease: Lease, joined: int, now: float) -> Reason:
    """Why its request waits."""
    if lease.state is LeaseState.HALTED:
        text = f"{lease.message}: end this task, or pause and activate its experiment to ask again"
        return Reason(kind=ReasonKind.NO_CAPACITY, text=text)
    if lease.job_id is None:
        return _not_submitted(lease, now)
    what = shown(lease)
    if lease.phase is JobPhase.QUEUED:
        text = lease.pending_text
        if not lease.way_out and lease.starts_at is not None and lease.starts_at > now:
            text += f"; the site expects it to start at {utc(lease.starts_at)}"
        return Reason(kind=lease.kind, text=text)
    text = begun(
        what,
        lease.phase,
        nodes=lease.node_names,
        since=lease.starts_at,
        joined=joined,
        agents=lease.shape.nodes,
        said=lease.message,
    )
    waits = lease.phase is JobPhase.PAUSED
    return Reason(kind=ReasonKind.QUEUED if waits else ReasonKind.LAUNCHING, text=text)


def why_never(lease: Lease, now: float) -> str:
    """The site's words and the way out, for what the site will surely never run; empty: it may."""
    if not lease.is_hopeless or lease.granted or not serves(lease):
        return ""
    if lease.job_id is not None:
        return explain(lease, 0, now).text
    return f"{DIALECTS[lease.shape.system].name} refuses its job: {lease.message}"


def _not_submitted(lease: Lease, now: float) -> Reason:
    if lease.called_at is not None:
        text = lease.message or "a batch job is being submitted"
        if lease.message:
            text = f"the batch system does not answer ({lease.message}): the job is looked for before it is submitted"
        return Reason(kind=ReasonKind.QUEUED, text=text)
    if lease.message and lease.next_try_at > now:
        text = f"{lease.message}; tried again at {utc(lease.next_try_at)}"
        return Reason(kind=lease.kind, text=text, retry_at=lease.next_try_at)
    return Reason(kind=ReasonKind.QUEUED, text=lease.message or "a batch job is being submitted")


def way_out_of(error: OSError, user: str) -> str:
    """Of a directory that cannot be written. `user`: who writes it; empty: the master's."""
    if error.errno in (errno.EDQUOT, errno.ENOSPC):
        return "free some space there (quota, lfs quota)"
    if user:
        return f"job_storage_root must be a folder of mode 1777, which {user} may write"
    return "job_storage_root must be a folder that the master's user may write"
