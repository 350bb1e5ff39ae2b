"""How many slots each job is entitled to: proportional to demand x weight, capped by demand.

Three steps, all deterministic:

1. Water level. Every job gets `level x demand x weight`, at least what it holds and cannot give back (`floor`), at
   most its demand; the level is the one at which the pool is used up. What a capped job cannot use thus flows to the
   others. 8 slots, demands 10 and 30: 2 and 6; with weights 3 and 1: 4 and 4.
2. Whole slots. Largest remainder, then the older job, then the id.
3. Turns for who is too small. A job whose smallest gang is larger than its share can use none of it, and could wait
   for ever while others do. So these jobs put their shares together and spend them on whole gangs by age; and one of
   them, if that is not enough for any, is lifted to its gang at the others' cost, as long as no *older* job is pushed
   below a gang of its own. Who gets none waits for its turn and has no share until then. Age does not change, so
   turns neither alternate nor deadlock, and at most one gang is ever lent. (A gang that is not preemptible keeps its
   slots once it has them, which passes the turn on; so the next one is lifted too.)

Shares depend on jobs, not on what runs of them: starting or releasing preemptible work does not move them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

LEAST_WEIGHT = 1e-6
"""Zero, negative and NaN weights count as this: served when nobody else wants the slots."""
MOST_WEIGHT = 1e6
ROUNDING = 1e-6
"""Float noise below this is not a remainder."""


class Entitlement(NamedTuple):
    """What one job brings to the division. `floor` may exceed `demand` (max_slots lowered while it runs)."""

    job_id: str
    weight: float
    demand: int
    """Slots it could use now: held, leaving (it will ask again) and waiting, capped by max_slots."""
    floor: int
    """Slots held by work that cannot be preempted."""
    gang: int
    """Its smallest gang that could be placed; 0 if there is none."""
    stays: bool
    """That gang is not preemptible: once it runs it is a floor, and the turn passes on."""


def divide(capacity: int, entitlements: Sequence[Entitlement]) -> dict[str, int]:
    """Shares in slots by job id. `entitlements` are in order of age, oldest first. Sums to at most the capacity,
    unless the floors alone are more."""
    floors = [entitlement.floor for entitlement in entitlements]
    caps = [max(entitlement.demand, entitlement.floor) for entitlement in entitlements]
    shares = _fill(capacity, entitlements, floors, caps)
    if any(
        share < entitlement.gang for entitlement, share in zip(entitlements, shares, strict=True)
    ):
        _give_turns(capacity, entitlements, shares, floors, caps)
        shares = _fill(capacity, entitlements, floors, caps)
    return {
        entitlement.job_id: share for entitlement, share in zip(entitlements, shares, strict=True)
    }


def proportion(entitlement: Entitlement) -> float:
    """What the share is proportional to."""
    weight = entitlement.weight
    if math.isnan(weight) or weight < LEAST_WEIGHT:
        weight = LEAST_WEIGHT
    return entitlement.demand * min(weight, MOST_WEIGHT)


def _fill(
    capacity: int, entitlements: Sequence[Entitlement], floors: Sequence[int], caps: Sequence[int]
) -> list[int]:
    target = min(capacity, sum(caps))
    if sum(floors) >= target:
        return list(floors)
    parts = [proportion(entitlement) for entitlement in entitlements]
    level = _level(target - sum(floors), parts, floors, caps)
    exact = [
        min(float(cap), max(float(floor), level * part))
        for part, floor, cap in zip(parts, floors, caps, strict=True)
    ]
    shares = [int(value + ROUNDING) for value in exact]
    by_remainder = sorted(
        range(len(shares)), key=lambda i: (-round(max(0.0, exact[i] - shares[i]), 6), i)
    )
    left = target - sum(shares)
    while left > 0:
        for i in by_remainder:
            if left > 0 and shares[i] < caps[i]:
                shares[i] += 1
                left -= 1
    return shares


def _level(rise: int, parts: Sequence[float], floors: Sequence[int], caps: Sequence[int]) -> float:
    """The level at which the shares have risen by `rise` above the floors. `rise` is below the sum of the caps.

    The sum is piecewise linear in the level: a job starts to rise at floor / part and stops at cap / part. Jobs of one
    weight share these points, so there are few of them.
    """
    slopes: dict[float, float] = {}
    for part, floor, cap in zip(parts, floors, caps, strict=True):
        if part > 0 and floor < cap:
            start, stop = floor / part, cap / part
            slopes[start] = slopes.get(start, 0.0) + part
            slopes[stop] = slopes.get(stop, 0.0) - part
    level, slope, risen = 0.0, 0.0, 0.0
    for point in sorted(slopes):
        step = slope * (point - level)
        if risen + step >= rise and slope > 0:
            return level + (rise - risen) / slope
        risen += step
        level = point
        slope += slopes[point]
    return level


def _give_turns(
    capacity: int,
    entitlements: Sequence[Entitlement],
    shares: Sequence[int],
    floors: list[int],
    caps: list[int],
) -> None:
    """Raise floors: of who gets a turn, and of the others to a gang, by age; lower the caps of who has to wait."""
    balance = sum(
        share
        for entitlement, share in zip(entitlements, shares, strict=True)
        if share < entitlement.gang
    )
    spoken_for = sum(floors)
    is_lent = False
    for i, entitlement in enumerate(entitlements):
        extra = max(0, entitlement.gang - floors[i])
        if shares[i] < entitlement.gang:
            affordable = balance >= entitlement.gang or not is_lent
            if (
                not affordable
                or entitlement.gang > entitlement.demand
                or spoken_for + extra > capacity
            ):
                caps[i] = floors[i]
                continue
            is_lent = is_lent or (balance < entitlement.gang and not entitlement.stays)
            balance = max(0, balance - entitlement.gang)
        if spoken_for + extra <= capacity:
            floors[i] += extra
            spoken_for += extra
