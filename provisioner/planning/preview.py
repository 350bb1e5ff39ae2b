"""What the next pass would do now, and what else was weighed for whom: for people, before anything is paid. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf

from master.core.reasons import Reason, ReasonKind
from master.core.unmet import unmet
from provisioner.capacity.open_offers import OpenOffers
from provisioner.planning.explain import unseen_text
from provisioner.planning.gang_classes import GangClass, gang_classes, nodes_needed
from provisioner.planning.plan_types import Launch, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.planning.scale_down.idle_time import IdleTimes
from provisioner.planning.scale_up.limits import PoolLimits, cluster_purse
from provisioner.planning.scale_up.quotes import Quotes
from provisioner.planning.scale_up.remaining_quota import QuotasLeft
from provisioner.planning.unschedulable import refusal_text
from provisioner.types import PAID_MARKETS, Gang, Market, Offer, OfferKey

MOST_CONSIDERED = 100
"""Shapes of gangs whose offers are compared."""
_HAS_A_PLACE = frozenset({ReasonKind.LAUNCHING, ReasonKind.QUEUED})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLaunch:
    """One launch that would be made now."""

    pool: str
    offer: Offer
    count: int
    ready_in_s: float
    request_ids: tuple[str, ...]
    """Whom its machines are for; empty: for the minimum of the pool."""

    @property
    def usd_per_hour(self) -> float:
        return self.count * self.offer.usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One offer as some gangs see it."""

    offer: Offer
    machines: int
    """What all of these gangs would take of it, alone on them; 0: it can hold none."""
    usd_per_work_hour: float | None
    """What an hour of their work there is expected to cost, with boot, waiting, interruptions and the network between
    machines. None: nothing."""
    slowdown: float
    """So much longer each run is expected to take over several of its machines than on one."""
    launched: int
    """Machines of it that would be launched for them."""
    why_not: str = ""
    """Why not more of it; empty: it would be launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """Gangs of one shape that machines would be launched for, or that wait for some."""

    pool: str
    slots: int
    single_agent: bool
    asks: str
    """What they ask of machines beside slots."""
    request_ids: tuple[str, ...]
    offers: tuple[Weighed, ...]
    """The launched ones first, then the cheapest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    launches: tuple[PlannedLaunch, ...]
    reasons: Mapping[str, Reason]
    """request id -> what becomes of each gang that needs capacity."""
    considered: tuple[Considered, ...]

    @property
    def usd_per_hour(self) -> float:
        return sum(launch.usd_per_hour for launch in self.launches)


def preview(state: PlanInput, more: Sequence[Gang] = ()) -> Preview:
    """What `plan` says of the state if these gangs waited, too."""
    state = _with_gangs(state, more)
    planned = plan(state)
    return Preview(
        launches=tuple(_launches(state, planned)),
        reasons=planned.reasons,
        considered=considered(state, planned),
    )


def _with_gangs(state: PlanInput, more: Sequence[Gang]) -> PlanInput:
    by_pool: dict[str, list[Gang]] = {}
    for gang in more:
        by_pool.setdefault(gang.pool, []).append(gang)
    return replace(state, pools=tuple(_added(p, by_pool) for p in state.pools))


def _added(pool: PoolInput, by_pool: Mapping[str, Sequence[Gang]]) -> PoolInput:
    demand = pool.demand
    gangs = (*demand.gangs, *by_pool.get(pool.settings.pool, ()))
    return replace(pool, demand=replace(demand, gangs=gangs))


def _launches(state: PlanInput, planned: Plan) -> Iterator[PlannedLaunch]:
    for launch in planned.launches:
        ids = dict.fromkeys(request_id for claims in launch.claims for request_id in claims)
        boot_s = state.memory.boot_p50_s(launch.offer)
        starts_at = launch.offer.starts_at
        yield PlannedLaunch(
            pool=launch.pool,
            offer=launch.offer,
            count=launch.count,
            ready_in_s=boot_s + max(0.0, (starts_at or state.now) - state.now),
            request_ids=tuple(ids),
        )


def considered(
    state: PlanInput, planned: Plan, *, most: int = MOST_CONSIDERED
) -> tuple[Considered, ...]:
    """The offers that were weighed for what machines are launched for, or wait for; the largest gangs first.

    Of at most so many shapes of gangs.
    """
    return tuple(_considered(state, planned, most))


def _considered(state: PlanInput, planned: Plan, most: int) -> Iterator[Considered]:
    left = most
    before, after = _limits(state), _limits(state)
    for launch in planned.launches:
        after[launch.pool].bought(launch.offer, launch.count)
    bought = {
        request_id for launch in planned.launches for ids in launch.claims for request_id in ids
    }
    open_offers = OpenOffers(state)
    for pool in state.pools:
        name = pool.settings.pool
        launches = [launch for launch in planned.launches if launch.pool == name]
        for served, limits in ((True, before[name]), (False, after[name])):
            weighing = _Weighing(pool, open_offers, limits, state.now, launches, served)
            for gangs in weighing.classes(planned.reasons, bought):
                if not left:
                    return
                left -= 1
                yield weighing.considered(gangs)


def _limits(state: PlanInput) -> dict[str, PoolLimits]:
    """Of each pool, before anything is bought."""
    cluster, quotas = cluster_purse(state), QuotasLeft(state)
    return {
        pool.settings.pool: PoolLimits(pool, state, cluster, IdleTimes(pool, state.memory), quotas)
        for pool in state.pools
    }


class _Weighing:
    """The offers of one pool, for gangs that would all get machines (`served`), or would all get none."""

    def __init__(
        self,
        pool: PoolInput,
        open_offers: OpenOffers,
        limits: PoolLimits,
        now: float,
        launches: Sequence[Launch],
        served: bool,
    ) -> None:
        self._pool = pool
        self._open_offers = open_offers
        self._limits = limits
        self._now = now
        self._served = served
        self._bought = _machines_by_request(launches)
        self._quotes = Quotes(pool, open_offers, now)

    def classes(
        self, reasons: Mapping[str, Reason], bought: Collection[str]
    ) -> Sequence[GangClass]:
        quotes, after_s = self._quotes, self._pool.settings.on_demand_after_s
        mine = [
            gang
            for gang in self._pool.demand.gangs
            if (gang.request_id in bought) is self._served
            and (self._served or reasons[gang.request_id].kind not in _HAS_A_PLACE)
        ]
        return gang_classes(
            mine,
            timed=quotes.end,
            run_matters=quotes.run_matters,
            late_since=self._now - after_s if quotes.have_both else None,
        )

    def considered(self, gangs: GangClass) -> Considered:
        ids = gangs.remaining_ids()
        machines = {machine for id_ in ids for machine in self._bought.get(id_, ())}
        launched = Counter(key for key, _ in machines)
        weighed = [self._weighed(offer, gangs, launched[offer.key]) for offer in self._pool.offers]
        weighed.sort(key=lambda w: (-w.launched, _or_inf(w.usd_per_work_hour), w.offer.key))
        requires = gangs.wants.requires
        return Considered(
            pool=self._pool.settings.pool,
            slots=gangs.slots,
            single_agent=gangs.single_agent,
            asks="" if requires is None else requires.describe(),
            request_ids=tuple(ids),
            offers=tuple(weighed),
        )

    def _weighed(self, offer: Offer, gangs: GangClass, launched: int) -> Weighed:
        machines = self._machines(offer, gangs)
        usd = machines * self._quotes.usd(offer, gangs) if machines else None
        return Weighed(
            offer=offer,
            machines=machines,
            usd_per_work_hour=usd,
            slowdown=self._quotes.slowdown(offer, gangs),
            launched=launched,
            why_not="" if launched else self._why_not(offer, gangs),
        )

    def _machines(self, offer: Offer, gangs: GangClass) -> int:
        """For all of these gangs."""
        if not gangs.slots:
            places = self._pool.settings.aux_places
            return -(-gangs.left // places) if places else 0
        nodes = nodes_needed(gangs.slots, gangs.single_agent, offer.slots)
        if nodes is None:
            return 0
        if nodes > 1:
            return nodes * gangs.left
        return -(-gangs.left // (offer.slots // gangs.slots))

    def _why_not(self, offer: Offer, gangs: GangClass) -> str:
        return (
            self._never(offer, gangs)
            or self._refused(offer)
            or self._limited(offer, gangs)
            or self._later(offer, gangs)
        )

    def _never(self, offer: Offer, gangs: GangClass) -> str:
        settings = self._pool.settings
        if not gangs.slots and not settings.aux_places:
            return "the pool takes no tasks without slots"
        nodes = nodes_needed(gangs.slots, gangs.single_agent, offer.slots)
        if nodes is None:
            if gangs.slots > offer.slots and gangs.single_agent:
                return "too few slots for one agent"
            return "its slots do not divide those of the gang"
        if not self._quotes.suits(offer, gangs):
            requires = gangs.wants.requires
            kinds = {(offer.slots, self._quotes.facts(offer))}
            why = None if requires is None else unmet(settings.pool, requires, gangs.slots, kinds)
            return "does not have what is asked for" if why else "does not run long enough"
        if nodes > settings.max_instances:
            return f"needs {nodes} instances; max_instances is {settings.max_instances}"
        return ""

    def _refused(self, offer: Offer) -> str:
        if self._pool.hold is not None:
            return self._pool.hold
        if (unseen := self._open_offers.unseen.get(offer.key)) is not None:
            return unseen_text(*unseen)
        block = self._open_offers.memory.of(offer)
        if block is None or self._open_offers.is_open(offer):
            return ""
        said = refusal_text(block, offer)
        if not block.is_shut(self._now):
            return f"one launch at a time tries it again after {said}"
        if block.until == inf:
            return f"{said}; tried again when the configuration has changed"
        return f"{said}; retrying at {_clock(block.until)}"

    def _limited(self, offer: Offer, gangs: GangClass) -> str:
        nodes = nodes_needed(gangs.slots, gangs.single_agent, offer.slots) or 1
        if nodes > self._limits.places:
            return f"the pool is at max_instances ({self._pool.settings.max_instances})"
        money = self._limits.reason(offer, nodes)
        return "" if money is None else money.text

    def _later(self, offer: Offer, gangs: GangClass) -> str:
        """It could be bought, and is not the best."""
        if offer.key.market is Market.ON_DEMAND and self._quotes.waits_for_spot(gangs):
            until = gangs.oldest_since + self._pool.settings.on_demand_after_s
            return f"spot is tried first; bought after {_clock(until)}"
        if offer.key.market not in PAID_MARKETS and any(
            quote.offer.key.market in PAID_MARKETS for quote in self._quotes.of(gangs)
        ):
            return "what is paid for anyway comes first"
        if not self._served:
            return "one launch at a time tries what was refused"
        return "dearer for what is to be launched"


def _machines_by_request(
    launches: Sequence[Launch],
) -> Mapping[str, Sequence[tuple[OfferKey, int]]]:
    """Of each request the machines that are launched for it, numbered over all launches."""
    found: dict[str, list[tuple[OfferKey, int]]] = {}
    machines = ((launch.offer.key, ids) for launch in launches for ids in launch.claims)
    for number, (key, ids) in enumerate(machines):
        for id_ in ids:
            found.setdefault(id_, []).append((key, number))
    return found


def _or_inf(usd: float | None) -> float:
    return inf if usd is None else usd


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"
