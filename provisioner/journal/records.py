"""One entry of the journal: something that a reconcile pass decided, or could not do. Frozen data, kept as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from provisioner.types import OfferKey
from windlass.base.formats.json_types import JsonObject
from windlass.base.formats.strict_json import StrictJson

MERGED_WITHIN_S = 3600.0
"""What happens again so soon is one entry with a count: a refusal, and a launch of which nothing came."""
MOST_JOBS = 1_000
"""Named in one entry; of more it says how many runs there are."""
MOST_WEIGHED = 20
"""Offers in one entry, the best ones; it says how many were weighed."""


class DecisionKind(StrEnum):
    LAUNCHED = "launched"
    """Machines were asked for, or stopped ones started."""
    ENDED = "ended"
    """Machines were ended or stopped."""
    MOVED = "moved"
    """The work of machines was asked to move to others."""
    CANCELLED = "cancelled"
    """A launch that its provider had accepted was given up."""
    REFUSED = "refused"
    """Machines were needed and could not be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """An offer that was weighed. Money is USD per hour; None: unknown, or it can hold none of the work."""

    offer: OfferKey
    machines: int
    usd: float | None
    """Of these machines, by price alone."""
    usd_per_work_hour: float | None
    """What an hour of the work is expected to cost there."""
    launched: int
    why_not: str
    """Empty: it was launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Times are seconds since the epoch."""

    id: str
    pool: str
    kind: DecisionKind
    key: str
    """Those of the same key are one entry while they follow each other closely. Empty: it is never joined."""
    reason: str
    first_at: float
    last_at: float
    """When it was last decided."""
    written_at: float
    """When this was last written down: what goes on unchanged is rarely written again."""
    times: int = 1
    """How many passes decided it."""
    stands: bool = False
    """It is so now: work waits because of it, or the provider has not answered."""
    is_open: bool = False
    """More may be added to it."""
    offer: OfferKey | None = None
    machines: int = 0
    slots: int = 0
    """Of all these machines; of a refusal those of each run."""
    usd: float | None = None
    """An hour of these machines. None: unknown, or no offer was chosen."""
    runs: int = 0
    """For so many."""
    jobs: tuple[str, ...] = ()
    """Whose runs these are, at most `MOST_JOBS`."""
    launches: tuple[str, ...] = ()
    """The launches that are not settled yet."""
    instances: tuple[str, ...] = ()
    said: str = ""
    """What the provider, or who gave it up, said of a launch of which nothing came."""
    weighed: int = 0
    alternatives: tuple[Alternative, ...] = ()
    """The best of those that were weighed."""

    def subjects(self) -> Iterator[str]:
        """By what it is found."""
        for instance_id in self.instances:
            yield machine_subject(instance_id)
        for job_id in self.jobs:
            yield job_subject(job_id)


def goes_on_alike(before: Decision, after: Decision) -> bool:
    """It was decided again, and that alone is not worth a commit."""
    return replace(before, last_at=after.last_at, times=after.times) == after


def machine_subject(instance_id: str) -> str:
    return f"machine {instance_id}"


def job_subject(job_id: str) -> str:
    return f"job {job_id}"


_DECISIONS: StrictJson[Decision] = StrictJson(Decision)


def decision_document(decision: Decision) -> JsonObject:
    document: JsonObject = _DECISIONS.dump(decision)
    return document


def decision_from_document(document: Any) -> Decision:
    return _DECISIONS.load(document, "decision of the planner")
