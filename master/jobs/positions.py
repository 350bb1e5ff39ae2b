"""Places in the queue: where a job must stand to be right ahead of another, or right behind it. Pure.

A job stands where it came, on the scale of submission times, until somebody moves it. Positions are exact decimals:
between two different ones there is always room, and nothing is ever rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, Inexact
from enum import StrEnum

from master.core.jobs import SetPlace
from master.core.scheduler.queue_order import QueueKey, queue_key
from master.core.scheduler.types import Job, SchedulerSettings
from windlass.base.errors import Conflict

END = Decimal(1)
"""Seconds before the first or after the last of its priority."""
MAX_DIGITS = 1000
"""Of a position: each move between the same two neighbours takes one more, and rows have to stay small."""
_EXACT = Context(prec=MAX_DIGITS, traps=[Inexact])


class Side(StrEnum):
    AHEAD = "ahead of"
    BEHIND = "behind"


def place_beside(
    jobs: Sequence[Job], settings: SchedulerSettings, job_id: str, anchor_id: str, side: Side
) -> SetPlace | None:
    """The place of `job_id` next to `anchor_id`, with its priority; None if it stands there already.

    `jobs` are those of one pool whose scheduler knows places, both of them included. Raises Conflict where there is no
    room: between two jobs at the very same position, or after some thousand moves into the same gap.
    """
    if job_id == anchor_id:
        return None
    keys = {job.id: queue_key(job, settings) for job in jobs}
    anchor, mine = keys[anchor_id], keys[job_id]
    row = sorted(key for key in keys.values() if key[0] == anchor[0] and key is not mine)
    gap = row.index(anchor) + (side is Side.BEHIND)
    earlier = row[gap - 1] if gap > 0 else None
    later = row[gap] if gap < len(row) else None
    if mine[0] == anchor[0] and _is_between(earlier, mine, later):
        return None
    position = _position_between(earlier, later, job_id)
    if not _is_between(earlier, (anchor[0], position, mine[2], mine[3]), later):
        raise _no_room(earlier, later, job_id)
    return SetPlace(position, anchor[0])


def _is_between(earlier: QueueKey | None, key: QueueKey, later: QueueKey | None) -> bool:
    return (earlier is None or earlier < key) and (later is None or key < later)


def _position_between(earlier: QueueKey | None, later: QueueKey | None, job_id: str) -> Decimal:
    low, high = (None if key is None else Decimal(key[1]) for key in (earlier, later))
    try:
        if low is not None and high is not None:
            return _EXACT.divide(_EXACT.add(low, high), Decimal(2))
        if high is not None:
            return _EXACT.subtract(high, END)
        if low is not None:
            return _EXACT.add(low, END)
    except Inexact:
        raise _no_room(earlier, later, job_id) from None
    raise ValueError("the anchor itself is one of the two")


def _no_room(earlier: QueueKey | None, later: QueueKey | None, job_id: str) -> Conflict:
    first, second = (key[3] if key is not None else "" for key in (earlier, later))
    if earlier is None or later is None or earlier[1] != later[1]:
        return Conflict(
            f"job {job_id} cannot be moved next to {first or second}: too many moves into the same gap; "
            "set the priority of the jobs around it to another value and back, and they stand where they came"
        )
    return Conflict(
        f"job {job_id} cannot be moved between {first} and {second}: both have the same position; "
        f"move {job_id} ahead of {first}, and then {first} ahead of {job_id}"
    )
