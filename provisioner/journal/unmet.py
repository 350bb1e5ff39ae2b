"""What a plan could not launch machines for, and the offers that it weighed. Pure.

Offers are weighed once more for people, and only for what is new in the journal: most passes decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from master.core.reasons import ReasonKind
from provisioner.journal.records import Decision
from provisioner.planning.plan_types import MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.preview import Considered, considered
from provisioner.types import NO_REQUIREMENTS, Gang

MOST_SHAPES = 20
"""Sizes of runs whose offers are weighed in one pass: each takes about a millisecond."""
SAME_EVERY_S = 60.0
"""A refusal that stands unchanged is written again so often, for its last time and its count."""
CHANGED_EVERY_S = 5.0
"""And one whose words change, such as those of a budget that is being spent."""
_IS_SERVED = frozenset({ReasonKind.LAUNCHING, ReasonKind.QUEUED, ReasonKind.QUEUED_AT_PROVIDER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """Runs of one shape that wait for the same reason."""

    key: str
    pool: str
    slots: int
    reason: str
    gangs: tuple[Gang, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """What there is to note of a plan beside what it changes."""

    unmet: tuple[Unmet, ...] = ()
    jobs: Mapping[str, str] = field(default_factory=dict)
    """request id -> job, of all that wait for machines."""
    considered: tuple[Considered, ...] = ()


def weighing(state: PlanInput, plan: Plan, known: Mapping[str, Decision]) -> Weighing:
    """`known`: entries that may be added to, by key."""
    waiting = _unmet(state, plan)
    is_new = any(is_due(known.get(each.key), each, state.now) for each in waiting)
    if not plan.launches and not is_new:
        return Weighing(unmet=waiting)
    return Weighing(
        unmet=waiting,
        jobs={g.request_id: g.job_id for pool in state.pools for g in pool.demand.gangs},
        considered=considered(state, plan, most=MOST_SHAPES),
    )


def is_due(known: Decision | None, unmet: Unmet, now: float) -> bool:
    """It is to be written."""
    if known is None or not known.stands:
        return True
    is_same = known.reason == unmet.reason and known.runs == len(unmet.gangs)
    return now - known.written_at >= (SAME_EVERY_S if is_same else CHANGED_EVERY_S)


def _unmet(state: PlanInput, plan: Plan) -> tuple[Unmet, ...]:
    groups: dict[tuple[str, int, bool, str, ReasonKind], list[Gang]] = {}
    for pool in state.pools:
        if _is_being_listed(state, pool):
            continue
        coming = {id_ for m in pool.machines if m.phase is MachinePhase.COMING for id_ in m.claims}
        for gang in pool.demand.gangs:
            reason = plan.reasons.get(gang.request_id)
            if reason is None or reason.kind in _IS_SERVED or gang.request_id in coming:
                continue
            asks = "" if gang.requires is NO_REQUIREMENTS else gang.requires.describe()
            key = (pool.settings.pool, gang.slots, gang.single_agent, asks, reason.kind)
            groups.setdefault(key, []).append(gang)
    return tuple(
        Unmet(
            key="/".join(map(str, key)),
            pool=key[0],
            slots=key[1],
            reason=plan.reasons[gangs[0].request_id].text,
            gangs=tuple(gangs),
        )
        for key, gangs in groups.items()
    )


def _is_being_listed(state: PlanInput, pool: PoolInput) -> bool:
    """The master has just started, and what its providers have is not known yet: nothing is decided."""
    why = [state.unseen_because(offer) for offer in pool.offers] if state.unseen else []
    return bool(why) and all(each is not None and each[1].kind is None for each in why)


def weighed_for(found: Sequence[Considered], request_ids: frozenset[str]) -> Considered | None:
    """The largest runs among these whose offers were weighed."""
    mine = (each for each in found if not request_ids.isdisjoint(each.request_ids))
    return max(mine, key=lambda each: each.slots, default=None)
