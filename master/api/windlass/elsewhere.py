"""What pools that work may fall back to would do for it: each for what those before it could not serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from master.api.services import Services
from master.core.fall_back import STUCK
from master.core.reasons import Reason, ReasonKind
from provisioner.planning.preview import Considered, PlannedLaunch
from provisioner.types import Gang
from rm_backends.base import AllocationRequest


@dataclass(frozen=True, slots=True)
class Refuge:
    """Another pool that would serve a request."""

    pool: str
    after_s: float
    """How long its own pool must have been unable to."""
    starts: bool
    """On free slots; else machines would be launched for it."""


@dataclass(slots=True)
class Elsewhere:
    refuges: dict[str, Refuge] = field(default_factory=dict)
    """By allocation id."""
    launches: list[PlannedLaunch] = field(default_factory=list)
    considered: list[Considered] = field(default_factory=list)


async def elsewhere(
    services: Services,
    waiting: Mapping[str, tuple[AllocationRequest, Reason]],
    served: Sequence[Gang],
) -> Elsewhere:
    """For requests that would wait in their own pools. `served`: what would be launched there for others of them."""
    found = Elsewhere()
    stuck = {id_: pair for id_, pair in waiting.items() if pair[1].kind in STUCK}
    rules = {id_: services.fall_back(request) for id_, (request, _) in stuck.items()}
    for pool in dict.fromkeys(pool for rule in rules.values() for pool in rule.pools):
        asking = [
            replace(request, pool=pool)
            for id_, (request, _) in stuck.items()
            if pool in rules[id_].pools and id_ not in found.refuges
        ]
        for id_, starts in (await _served(services, asking, pool, served, found)).items():
            never = stuck[id_][1].kind is ReasonKind.NO_SUCH_AGENT
            after_s = 0.0 if never else rules[id_].after_s
            found.refuges[id_] = Refuge(pool, after_s, starts)
    return found


async def _served(
    services: Services,
    asking: Sequence[AllocationRequest],
    pool: str,
    served: Sequence[Gang],
    found: Elsewhere,
) -> Mapping[str, bool]:
    """Those that this pool would serve; True: on free slots. What it would launch is noted."""
    foreseen = await services.foreseer.foresee(asking) if asking else {}
    told = {id_: True for id_, each in foreseen.items() if each.starts}
    gangs = {id_: each.gang for id_, each in foreseen.items() if each.gang is not None}
    if services.provisioner is None or not gangs:
        return told
    preview = await services.provisioner.preview([*served, *gangs.values()])
    launches = [x for x in preview.launches if x.pool == pool and gangs.keys() & x.request_ids]
    found.launches += launches
    found.considered += [
        x for x in preview.considered if x.pool == pool and gangs.keys() & x.request_ids
    ]
    return told | dict.fromkeys(gangs.keys() & {i for x in launches for i in x.request_ids}, False)
