"""What was decided about machines, and what was weighed for it: our own addition to the API."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Query
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.paging import Pagination, pagination
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import OptionalTime, Text
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Timestamp, epoch
from master.auth.actions import Action
from master.store.paging import Paged
from master.store.repositories.decisions import DecisionFilter, jobs_of
from provisioner.capacity.offer_views import offer_id
from provisioner.journal.records import Alternative, Decision, DecisionKind

router = APIRouter(
    prefix="/api/v1/windlass/fleet/decisions", route_class=ApiRoute, tags=["windlass"]
)

NOTHING: Paged[Decision] = Paged(rows=(), total=0, offset=0, limit=0)
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]
Limit = Annotated[int, Query(ge=1, le=1_000)]


class WeighedAlternative(TypedDict):
    offer: str
    """Its name, as of the list of offers."""
    machines: int
    """That the work would take of it; 0: it can hold none."""
    usdPerHour: float | None
    """Of these machines, by price alone; null: unknown."""
    usdPerWorkHour: float | None
    """What an hour of the work was expected to cost there; null: unknown."""
    launched: int
    whyNot: str
    """Empty: it was launched."""


class FleetDecision(TypedDict):
    id: str
    pool: str
    kind: DecisionKind
    reason: str
    stands: bool
    """A refusal: work waits because of it. A launch: its provider has not answered all of it."""
    firstAt: Timestamp
    lastAt: Timestamp
    times: int
    """By how many passes it was decided from the first time to the last."""
    offer: str
    """The name of what was chosen; empty: nothing, or machines of several kinds."""
    machines: int
    slots: int
    """Of all these machines; of a refusal those of each run."""
    usdPerHour: float | None
    """Of all these machines; null: unknown, or none."""
    runs: int
    """For so many."""
    jobs: list[str]
    """Those whose runs these are and that the caller may see, at most 1,000."""
    instances: list[str]
    said: str
    """What became of a launch that made nothing, in the provider's words."""
    weighed: int
    """So many offers were weighed."""
    alternatives: list[WeighedAlternative]
    """The best of them."""


class DecisionsReply(TypedDict):
    decisions: list[FleetDecision]
    pagination: Pagination


@router.get("")
@permit(Action.VIEW_CLUSTER, VISIBLE)
async def decisions(
    by: Caller,
    visible: Visible,
    api: TheApi,
    id: Annotated[Text, Query(description="That one alone.")] = "",
    pool: Text = "",
    kind: DecisionKind | None = None,
    machine: Annotated[Text, Query(description="Launched, moved or ended by it.")] = "",
    job: Annotated[Text, Query(description="Its runs were what machines were for.")] = "",
    since: OptionalTime = None,
    until: OptionalTime = None,
    offset: Offset = 0,
    limit: Limit = 100,
) -> Reply[DecisionsReply]:
    """Of pools that the caller is shown, the newest first. Kept for 90 days."""
    reads = api.reads.decisions
    hidden = await hidden_pools(api, by)
    if job and not await reads.visible_jobs([job], visible):
        return reply({"decisions": [], "pagination": pagination(NOTHING)})
    wanted = DecisionFilter(
        id=id,
        pool=pool,
        kind=kind,
        machine=machine,
        job=job,
        since=None if since is None else since.timestamp(),
        until=None if until is None else until.timestamp(),
        hidden=hidden,
    )
    found = await reads.page(wanted, offset=offset, limit=limit)
    shown = await reads.visible_jobs(jobs_of(found.rows), visible)
    rows = [_decision(each, shown) for each in found.rows]
    return reply({"decisions": rows, "pagination": pagination(found)})


def _decision(each: Decision, shown_jobs: Collection[str]) -> FleetDecision:
    return {
        "id": each.id,
        "pool": each.pool,
        "kind": each.kind,
        "reason": each.reason,
        "stands": each.stands,
        "firstAt": epoch(each.first_at),
        "lastAt": epoch(each.last_at),
        "times": each.times,
        "offer": "" if each.offer is None else offer_id(each.offer),
        "machines": each.machines,
        "slots": each.slots,
        "usdPerHour": each.usd,
        "runs": each.runs,
        "jobs": [job_id for job_id in each.jobs if job_id in shown_jobs],
        "instances": list(each.instances),
        "said": each.said,
        "weighed": each.weighed,
        "alternatives": [_alternative(one) for one in each.alternatives],
    }


def _alternative(each: Alternative) -> WeighedAlternative:
    return {
        "offer": offer_id(each.offer),
        "machines": each.machines,
        "usdPerHour": each.usd,
        "usdPerWorkHour": each.usd_per_work_hour,
        "launched": each.launched,
        "whyNot": each.why_not,
    }
