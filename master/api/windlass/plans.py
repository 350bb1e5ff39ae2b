"""What elastic pools would launch now, and for an experiment that nobody has submitted: our own addition to the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from math import isfinite

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.permits import CLUSTER, SOME, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, FreeObject, Text
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import applied_template
from master.api.values import WaitingReason, reason
from master.api.windlass.elsewhere import Refuge, elsewhere
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.jobs import JobType
from master.core.reasons import Reason, ReasonKind
from master.core.visibility import Visibility
from master.tasks.service import NewTask
from provisioner.capacity.offer_views import offer_id
from provisioner.planning.preview import Considered, PlannedLaunch, Preview, Weighed
from rm_backends.base import AllocationRequest
from rm_backends.views import Foreseen
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1/windlass/fleet/plan", route_class=ApiRoute, tags=["windlass"])


class PlanOutcome(StrEnum):
    STARTS = "starts"
    """On free slots."""
    LAUNCHES = "launches"
    """Machines would be launched for it."""
    WAITS = "waits"


class PlanRequest(Body):
    """One of both."""

    experiment: Text = ""
    """Its configuration: YAML, as it would be submitted."""
    command: FreeObject | None = None
    """The configuration of a command."""
    template: Text = ""
    """The name of the template that it would be submitted with."""


class FallBack(TypedDict):
    """Another pool that would serve what its own cannot."""

    pool: str
    afterS: float
    """How long its own pool must have been unable to."""
    outcome: PlanOutcome


class AskedRuns(TypedDict):
    """Runs that the configuration would ask for and that fare alike."""

    pool: str
    slots: int
    runs: int
    outcome: PlanOutcome
    """In their own pool."""
    reason: WaitingReason | None
    fallBack: FallBack | None
    """null: they go nowhere else."""


class Launch(TypedDict):
    pool: str
    offer: str
    """Its name, as of the list of offers."""
    machines: int
    slots: int
    """Of all of them."""
    usdPerHour: float | None
    """Of all of them; null: unknown."""
    readyInS: float
    runs: int
    """For so many that wait; 0: for the minimum of the pool."""
    runsOfConfig: int
    """Of these, so many of the configuration."""


class WeighedOffer(TypedDict):
    offer: str
    slots: int
    machines: int
    """That all of these runs would take; 0: it can hold none."""
    usdPerHour: float | None
    """Of these machines, by price alone."""
    usdPerWorkHour: float | None
    """What an hour of the work would cost there, with boot, waiting, interruptions and the network between machines."""
    slowdown: float
    """So much longer each run would take over several of these machines than on one, for their network."""
    launched: int
    whyNot: str
    """Empty: it would be launched."""


class ConsideredRuns(TypedDict):
    """Runs of one shape, and all offers of their pool."""

    pool: str
    slots: int
    singleAgent: bool
    asks: str
    """What they ask of machines beside slots."""
    runs: int
    runsOfConfig: int
    offers: list[WeighedOffer]


class WaitingRuns(TypedDict):
    """Submitted runs that need machines and would get none now."""

    pool: str
    runs: int
    reason: WaitingReason | None


class PlanReply(TypedDict):
    launches: list[Launch]
    usdPerHour: float | None
    """Of all launches; null: unknown."""
    asked: list[AskedRuns]
    """What becomes of the configuration; empty without one."""
    waiting: list[WaitingRuns]
    considered: list[ConsideredRuns]


@router.get("")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def plan(by: Caller, api: TheApi) -> Reply[PlanReply]:
    """What would be launched now for what waits, in pools that the caller is shown. Nothing is."""
    return reply(await plan_of(api, (), await hidden_pools(api, by)))


@router.post("")
@permit(Action.CREATE_EXPERIMENT, SOME)
async def plan_for(
    body: PlanRequest, principal: Caller, visible: Visible, api: TheApi
) -> Reply[PlanReply]:
    """The same if this were submitted now: it is checked as at its submission. Nothing is launched nor written."""
    requests = await _requests(api, body, principal, visible)
    return reply(await plan_of(api, requests, await hidden_pools(api, principal)))


async def _requests(
    api: ApiContext, body: PlanRequest, by: Principal, visible: Visibility
) -> Sequence[AllocationRequest]:
    if (body.command is None) is not bool(body.experiment):
        raise InvalidArgument("give the configuration of an experiment, or that of a command")
    template = await applied_template(api, body.template, by)
    if body.command is None:
        checked = await api.services.experiments.check(body.experiment, by=by, template=template)
        return api.services.experiments.first_requests(checked, user=by.name)
    new = NewTask(type=JobType.COMMAND, config=body.command, template=template)
    return [await api.services.tasks.would_request(new, by=by)]


async def plan_of(
    api: ApiContext, requests: Sequence[AllocationRequest], hidden: Collection[str]
) -> PlanReply:
    """What would be launched with these requests, too. `hidden`: pools of which only what is for them is told."""
    services = api.services
    foreseen = await services.foreseer.foresee(requests) if requests else {}
    gangs = {id_: each.gang for id_, each in foreseen.items() if each.gang is not None}
    none = Preview(launches=(), reasons={}, considered=())
    told = (
        none
        if services.provisioner is None
        else await services.provisioner.preview([*gangs.values()])
    )
    bought = {id_ for launch in told.launches for id_ in launch.request_ids}
    fates = {each.allocation_id: _fate(each, foreseen, told.reasons, bought) for each in requests}
    waiting = {
        each.allocation_id: (each, why)
        for each in requests
        if (why := fates[each.allocation_id][1]) is not None
    }
    other = await elsewhere(services, waiting, [gangs[id_] for id_ in gangs.keys() & bought])
    mine = {request.allocation_id for request in requests}

    def is_shown(each: PlannedLaunch | Considered) -> bool:
        return each.pool not in hidden or not mine.isdisjoint(each.request_ids)

    launches = [*filter(is_shown, (*told.launches, *other.launches))]
    considered = [*filter(is_shown, (*told.considered, *other.considered))]
    return {
        "launches": [_launch(launch, mine) for launch in launches],
        "usdPerHour": _finite(sum(launch.usd_per_hour for launch in launches)),
        "asked": _asked(requests, fates, other.refuges),
        "waiting": [x for x in _waiting(told, {*mine, *bought}) if x["pool"] not in hidden],
        "considered": [_considered(each, mine) for each in considered],
    }


def _launch(launch: PlannedLaunch, mine: Collection[str]) -> Launch:
    return {
        "pool": launch.pool,
        "offer": offer_id(launch.offer.key),
        "machines": launch.count,
        "slots": launch.count * launch.offer.slots,
        "usdPerHour": _finite(launch.usd_per_hour),
        "readyInS": launch.ready_in_s,
        "runs": len(launch.request_ids),
        "runsOfConfig": sum(id_ in mine for id_ in launch.request_ids),
    }


def _fate(
    request: AllocationRequest,
    foreseen: Mapping[str, Foreseen],
    reasons: Mapping[str, Reason],
    bought: Collection[str],
) -> tuple[PlanOutcome, Reason | None]:
    """In its own pool; and why it waits, if it does."""
    known = foreseen.get(request.allocation_id)
    if known is None:
        return PlanOutcome.WAITS, _OTHERS
    if known.starts:
        return PlanOutcome.STARTS, None
    if request.allocation_id in bought:
        return PlanOutcome.LAUNCHES, None
    return PlanOutcome.WAITS, reasons.get(request.allocation_id) or known.reason or _OTHERS


def _asked(
    requests: Sequence[AllocationRequest],
    fates: Mapping[str, tuple[PlanOutcome, Reason | None]],
    refuges: Mapping[str, Refuge],
) -> list[AskedRuns]:
    counts = Counter(
        (each.pool, each.slots, *fates[each.allocation_id], refuges.get(each.allocation_id))
        for each in requests
    )
    return [
        {
            "pool": pool,
            "slots": slots,
            "runs": runs,
            "outcome": outcome,
            "reason": reason(why),
            "fallBack": None if refuge is None else _fall_back(refuge),
        }
        for (pool, slots, outcome, why, refuge), runs in counts.items()
    ]


def _fall_back(refuge: Refuge) -> FallBack:
    outcome = PlanOutcome.STARTS if refuge.starts else PlanOutcome.LAUNCHES
    return {"pool": refuge.pool, "afterS": refuge.after_s, "outcome": outcome}


_OTHERS = Reason(
    kind=ReasonKind.QUEUED,
    text="its pool is scheduled by another system, which says when it starts",
)


def _waiting(told: Preview, without: Collection[str]) -> list[WaitingRuns]:
    pools = {id_: each.pool for each in told.considered for id_ in each.request_ids}
    counts: Counter[tuple[str, Reason]] = Counter()
    for id_, why in told.reasons.items():
        if id_ in pools and id_ not in without:
            counts[pools[id_], why] += 1
    return [
        {"pool": pool, "runs": runs, "reason": reason(why)} for (pool, why), runs in counts.items()
    ]


def _considered(each: Considered, mine: Collection[str]) -> ConsideredRuns:
    return {
        "pool": each.pool,
        "slots": each.slots,
        "singleAgent": each.single_agent,
        "asks": each.asks,
        "runs": len(each.request_ids),
        "runsOfConfig": sum(id_ in mine for id_ in each.request_ids),
        "offers": [_weighed(offer) for offer in each.offers],
    }


def _weighed(each: Weighed) -> WeighedOffer:
    usd = each.usd_per_work_hour
    return {
        "offer": offer_id(each.offer.key),
        "slots": each.offer.slots,
        "machines": each.machines,
        "usdPerHour": _finite(each.machines * each.offer.usd_per_hour) if each.machines else None,
        "usdPerWorkHour": None if usd is None else _finite(usd),
        "slowdown": each.slowdown,
        "launched": each.launched,
        "whyNot": each.why_not,
    }


def _finite(usd: float) -> float | None:
    return usd if isfinite(usd) else None
