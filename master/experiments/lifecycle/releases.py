"""Why allocations are asked for their slots: by the experiment itself, or by others, of whom its user should hear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from master.allocations.machine import AllocationState
from master.experiments.lifecycle.state import Phase

WHY: Mapping[Phase, str] = {
    Phase.PAUSED: "the experiment was paused",
    Phase.STOPPING_COMPLETED: "the searcher stopped the trial",
    Phase.STOPPING_CANCELED: "it was canceled",
    Phase.STOPPING_KILLED: "it was killed",
    Phase.STOPPING_ERROR: "the experiment failed",
}
"""What the experiment says when its own phase, or its trial's, ends an allocation."""
_MOVED = "moved to resource pool "
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def moved_to(pool: str) -> str:
    return f"{_MOVED}{pool}"


def asked_by_others(before: AllocationState, after: AllocationState) -> str:
    """Why a step from outside asked this allocation for its slots; empty if it did not.

    An allocation that is not ready yet cannot leave gracefully: it is killed for the same reason. A gang of daemons is
    killed because nobody works, not because somebody wants its slots.
    """
    if after.preempt_reason is not None and before.preempt_reason is None:
        return after.preempt_reason
    killed = after.kill_reason is not None and before.kill_reason is None
    if killed and not all(c.daemon for c in after.containers):
        return after.kill_reason or ""
    return ""


def last_asked_by_others(allocations: Iterable[AllocationState]) -> str:
    """The newest of such reasons that the allocations themselves remember; empty if there is none."""
    asked = [
        (allocation.preempt_deadline or _LONG_AGO, allocation.preempt_reason)
        for allocation in allocations
        if allocation.preempt_reason is not None and not is_own(allocation.preempt_reason)
    ]
    return max(asked, default=(_LONG_AGO, ""))[1]


def is_own(reason: str) -> bool:
    """Whether that is why the experiment itself, or its user, ended an allocation."""
    return reason in WHY.values() or reason.startswith(_MOVED)
