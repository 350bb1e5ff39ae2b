"""Jobs: what queues."""

from __future__ import annotations

from datetime import UTC, datetime

from master.api.enums import JobState, JobType
from master.api.jobs.replies import (
    ExplanationReply,
    HoldingAllocation,
    Job,
    JobSummary,
    LimitedJob,
    PoolStatistics,
    WaitingAllocation,
)
from master.api.values import RUN_STATES, finite, reason, time
from master.core.reasons import Reason
from master.jobs.explain import Explanation, HoldingRun, WaitingRun
from master.jobs.ports import JobFacts
from master.jobs.queue import UNKNOWN_AHEAD, QueuedJob
from master.jobs.statistics import QueueStatistics
from provisioner.batch.base import ForeignJob
from rm_backends.base import FellBack


def summary(job: QueuedJob) -> JobSummary:
    return {"state": JobState[job.state.name], "jobsAhead": job.jobs_ahead}


def job(queued: QueuedJob, why: Reason | None) -> Job:
    """The published shape, with its place in the listing and why it waits besides."""
    return {
        **_facts(queued.facts),
        "resourcePool": queued.pool,
        "isPreemptible": queued.is_preemptible,
        "priority": queued.priority,
        "requestedSlots": queued.requested_slots,
        "allocatedSlots": queued.allocated_slots,
        "summary": summary(queued),
        "position": queued.position,
        "waitingReason": why.text if why is not None else None,
    }


def job_of_others(foreign: ForeignJob, pool: str, *, named: bool) -> Job:
    """One that somebody submitted to the batch system himself. `named`: with its name and user."""
    size = f"{foreign.nodes} node" + ("" if foreign.nodes == 1 else "s")
    state = JobState.QUEUED if foreign.waits else JobState.SCHEDULED
    submitted = datetime.fromtimestamp(foreign.submitted or 0, UTC)
    return {
        "jobId": f"{foreign.system}-{foreign.job_id}",
        "type": JobType.EXTERNAL,
        "name": foreign.name if named else size,
        "entityId": foreign.job_id,
        "username": foreign.user if named else "",
        "userId": 0,
        "resourcePool": pool,
        "submissionTime": time(submitted),
        "priority": None,
        "weight": 0,
        "maxSlots": None,
        "progress": None,
        "workspaceId": 0,
        "summary": {"state": state, "jobsAhead": UNKNOWN_AHEAD},
        "isPreemptible": False,
        "requestedSlots": 0,
        "allocatedSlots": 0,
        "waitingReason": None,
    }


def any_job(facts: JobFacts, queued: QueuedJob | None, why: Reason | None) -> Job:
    """One that asks for nothing now has no summary, no place and no slots."""
    return _facts(facts) if queued is None else job(queued, why)


def limited(shown: Job) -> LimitedJob:
    """Without its name, its user and how far it is."""
    return {
        "jobId": shown["jobId"],
        "type": shown["type"],
        "resourcePool": shown["resourcePool"],
        "priority": shown["priority"],
        "weight": shown["weight"],
        "workspaceId": shown["workspaceId"],
        "progress": None,
        "summary": shown["summary"],
        "isPreemptible": shown.get("isPreemptible", False),
        "requestedSlots": shown.get("requestedSlots", 0),
        "allocatedSlots": shown.get("allocatedSlots", 0),
    }


def explanation(explained: Explanation, why: Reason | None) -> ExplanationReply:
    return {
        "job": any_job(explained.facts, explained.queued, why),
        "text": explained.text,
        "waiting": [_waiting(allocation) for allocation in explained.waiting],
        "waitingTotal": explained.waiting_total,
        "holding": [_holding(allocation) for allocation in explained.holding],
        "lastRelease": explained.facts.last_release or None,
    }


def statistics(of: QueueStatistics) -> PoolStatistics:
    return {
        "resourcePool": of.pool,
        "stats": {"queuedCount": of.queued, "scheduledCount": of.scheduled},
        "aggregates": [
            {"periodStart": wait.day.isoformat(), "seconds": wait.seconds}
            for wait in of.daily_waits
        ],
    }


def _facts(facts: JobFacts) -> Job:
    """What is known of a job even while it asks for nothing."""
    return {
        "jobId": facts.job_id,
        "type": JobType[facts.type],
        "name": facts.name,
        "entityId": facts.entity_id,
        "username": facts.owner_name,
        "userId": facts.owner_id,
        "resourcePool": facts.pool,
        "submissionTime": time(facts.order.submitted),
        "priority": facts.order.priority,
        "weight": facts.order.weight,
        "maxSlots": facts.order.max_slots,
        "progress": finite(facts.progress),
        "workspaceId": facts.workspace_id,
        "summary": None,
    }


def _waiting(allocation: WaitingRun) -> WaitingAllocation:
    return {
        "allocationId": allocation.allocation_id,
        "name": allocation.name,
        "slots": allocation.slots,
        "since": time(allocation.since),
        "reason": reason(allocation.reason),
        "advice": allocation.advice,
        "expectedStart": time(allocation.expected_start),
    }


def _holding(allocation: HoldingRun) -> HoldingAllocation:
    return {
        "allocationId": allocation.allocation_id,
        "name": allocation.name,
        "slots": allocation.slots,
        "since": time(allocation.since),
        "agents": dict(allocation.placement),
        "releasing": allocation.is_releasing,
        "resourcePool": allocation.pool,
        "fellBack": _fell_back(allocation.fell_back),
        "state": RUN_STATES[allocation.phase],
    }


def _fell_back(away: FellBack | None) -> str | None:
    """Why it is not in its own pool."""
    if away is None:
        return None
    if away.is_choice:
        return f"resource pool '{away.home}' chooses by {away.why}"
    why = f" ({away.why})" if away.why else ""
    return f"it could not start in resource pool '{away.home}'{why}"
