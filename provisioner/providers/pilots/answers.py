"""What a provider of pilots reports about one: why its job queues, or the machines that it provides. Pure.

`job` is what the site last said of it; None: nothing yet, or nothing any more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from provisioner.batch.base import JobPhase, JobRefused, JobReport
from provisioner.batch.dialects import DIALECTS
from provisioner.batch.stages import pending
from provisioner.capacity.refusals import BlockKind
from provisioner.leases.job_record import listed
from provisioner.providers.base import Accepted, FoundGroup, FoundInstance, FoundState
from provisioner.providers.errors import Refusal
from provisioner.providers.pilots.book import Pilot
from provisioner.providers.pilots.times import MARGIN_S
from provisioner.types import Scope

DELIVERED = (JobPhase.RUNNING, JobPhase.PAUSED, JobPhase.ENDING)
"""It has nodes."""
ASK_AGAIN_S = 60.0
"""Lists tell what comes; only what came to nothing is heard of by asking."""
FIX_S = 600.0
"""Somebody has to change something before a job like that is taken: it is tried again so often."""
EXCLUDED_S = 60.0
"""Of one that was asked for without some nodes: which these are depends on what waits, and changes by itself."""
EARLIER_S = 120.0
"""A job that ends so much before its time limit is taken back."""


def accepted(pilot: Pilot, job: JobReport | None, system: str) -> Accepted:
    """`system`: slurm or pbs."""
    return Accepted(
        handle=pilot.tag,
        look_again_s=ASK_AGAIN_S,
        reason=_waits(pilot, job, system),
        starts_at=None if job is None else job.starts_at,
    )


def waiting_group(pilot: Pilot, job: JobReport, system: str) -> FoundGroup:
    """One that has no nodes yet."""
    created_at = pilot.intent.created_at or pilot.written_at
    return FoundGroup.of(pilot.intent, accepted(pilot, job, system), created_at)


def machines(pilot: Pilot, job: JobReport | None, stage: str = "") -> Sequence[FoundInstance]:
    """Its nodes; none before it had any. `stage`: how far they are until their agents have joined."""
    over = pilot.ended_at is not None
    if not pilot.ran or (job is None and not over and pilot.over_at is None):
        return ()
    intent = pilot.intent
    # Of a job that is being ended it is the time of that, and nothing can leave before it any more.
    ends_at = None if job is None or job.phase is JobPhase.ENDING else job.ends_at
    taken = _taken_back(pilot, ends_at)
    return [
        FoundInstance(
            instance_id=instance_id,
            state=FoundState.ENDED if over else FoundState.RUNNING,
            cluster_id=intent.cluster_id,
            pool=intent.pool,
            intent_id=intent.intent_id,
            generation=intent.generation,
            created_at=intent.created_at or pilot.written_at,
            offer_key=intent.offer.key,
            slots=intent.offer.slots,
            usd_per_hour=intent.offer.usd_per_hour,
            started_at=None if job is None else job.starts_at or pilot.written_at,
            ends_at=None if ends_at is None else ends_at - MARGIN_S - pilot.leaves_early_s,
            leaves_at=ends_at if taken else None,
            leaves_because=taken,
            detail=pilot.how,
            stage=stage,
        )
        for instance_id in pilot.agents
    ]


def refusal(pilot: Pilot, error: JobRefused, avoided: Sequence[str]) -> Refusal:
    """Of a job that the site did not take. `avoided`: nodes that it must not use."""
    text = error.message
    fix_s = FIX_S
    if avoided and not error.passing:
        fix_s = EXCLUDED_S
        nodes = "nodes that are disabled, or that everything that waits avoids"
        text = f"{text} (it was asked for without {', '.join(avoided)}: {nodes})"
    limit = re.search(r"\b(?:QOS|Assoc)\w*Limit\b", error.message)
    return Refusal(
        BlockKind.QUOTA if error.passing else BlockKind.CONFIG,
        text,
        scope=_scope(pilot, error.message),
        quota=limit.group() if limit is not None and error.passing else "",
        retry_after_s=None if error.passing else fix_s,
    )


def refusal_of_queued(pilot: Pilot) -> Refusal:
    """Of one that the site took, and will never start."""
    scope = _scope(pilot, pilot.refused)
    return Refusal(BlockKind.CONFIG, pilot.refused, scope=scope, retry_after_s=FIX_S)


def _scope(pilot: Pilot, said: str) -> Scope:
    """What is refused for its time limit says nothing of shorter ones."""
    key = pilot.intent.offer.key
    return Scope.of(key) if "--time" in said else Scope(provider=key.provider, region=key.region)


def seen(pilot: Pilot, job: JobReport, now: float, system: str) -> Pilot:
    """The site lists it, and it is not over.

    Once it is sure that it will never start nobody waits for it any more: it is cancelled as others are.
    """
    pilot = listed(pilot, job, now)
    if pilot.is_hopeless:
        pilot = replace(pilot, cancelled=True, refused=_waits(pilot, job, system))
    if job.phase not in DELIVERED:
        return pilot
    ends_at = job.ends_at if pilot.ends_at is None else pilot.ends_at
    return replace(pilot, ran=True, ends_at=ends_at)


def time_is_over(pilot: Pilot, job: JobReport, now: float) -> bool:
    """Before that of its array is: nothing works there any more, and the site would wait for its time limit."""
    runs = job.phase in (JobPhase.RUNNING, JobPhase.PAUSED) and job.ends_at is not None
    early_s = pilot.leaves_early_s
    return runs and early_s > 0 and now >= (job.ends_at or 0.0) - early_s


def _waits(pilot: Pilot, job: JobReport | None, system: str) -> str:
    what = f"{DIALECTS[system].name} job {pilot.job_id or (job.job_id if job else pilot.tag)}"
    if job is None:
        return f"{what} is being submitted"
    if job.phase is JobPhase.STARTING:
        return f"{what} starts on {', '.join(job.nodes) or 'its nodes'}"
    why = job.reason or job.state
    return pending(what, why, job.words, job.never)


def _taken_back(pilot: Pilot, ends_at: float | None) -> str:
    """Why it ends before its time; empty: it does not."""
    if ends_at is None or pilot.ends_at is None or ends_at > pilot.ends_at - EARLIER_S:
        return ""
    return f"the site ends job {pilot.job_id} before its time limit"
