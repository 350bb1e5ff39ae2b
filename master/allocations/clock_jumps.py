"""An allocation when the wall clock was set: everything about it stays exactly as old as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from master.allocations.machine import AllocationState


def shifted(state: AllocationState, by: timedelta, now: datetime) -> AllocationState:
    if not state.is_open:
        return state
    return replace(
        state,
        requested_at=min(state.requested_at + by, now),
        started_at=since(state.started_at, by, now),
        pulled_at=since(state.pulled_at, by, now),
        preempt_asked_at=since(state.preempt_asked_at, by, now),
        preempt_deadline=until(state.preempt_deadline, by),
        daemon_failed_at=since(state.daemon_failed_at, by, now),
    )


def since(time: datetime | None, by: timedelta, now: datetime) -> datetime | None:
    """Of what has happened: it may be so young that it was noted with the new time."""
    return None if time is None else min(time + by, now)


def until(time: datetime | None, by: timedelta) -> datetime | None:
    return None if time is None else time + by
