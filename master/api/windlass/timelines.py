"""What machines did when, and what is left of budgets: our own addition to the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.permits import CLUSTER, VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import Timestamp, epoch
from master.api.windlass.replies import Offer
from master.api.windlass.wire import known_usd, shown_offer
from master.auth.actions import Action
from master.costs.timelines import MachineTimeline, timelines
from provisioner.money.spans import SpanKind
from provisioner.planning.budget_views import BudgetKind, BudgetView
from provisioner.types import InstanceView

router = APIRouter(prefix="/api/v1/windlass/fleet", route_class=ApiRoute, tags=["windlass"])

MOST_HOURS = 720
"""A month."""
ASKED_FOR = frozenset({"asking", "accepted", "cancelling"})
"""States of machines that do not exist yet."""

Limit = Annotated[int, Query(ge=1, le=5_000)]
Hours = Annotated[int, Query(ge=1, le=MOST_HOURS, description="How far back it goes.")]


class TimeSpan(TypedDict):
    kind: SpanKind
    start: Timestamp
    end: Timestamp


class MachineLife(TypedDict):
    id: str
    pool: str
    offer: Offer
    slots: int
    exists: bool
    reason: str
    """Why it ended."""
    usd: float | None
    """Of its whole life so far, also of what was before; null: its price is unknown."""
    usdPerHour: float | None
    spans: list[TimeSpan]
    """In order, without gaps."""


class TimelineReply(TypedDict):
    since: Timestamp
    until: Timestamp
    machines: list[MachineLife]
    """The newest first. Of those that are gone only the ones that are not wholly booked."""
    total: int


class BudgetRow(TypedDict):
    kind: BudgetKind
    name: str
    """Empty: the cluster's."""
    spentUsd: float
    """In this month, in UTC."""
    usdPerMonth: float | None
    """Null: no limit."""
    usdPerHourNow: float
    usdPerHour: float | None
    """Null: no limit."""


class BudgetsReply(TypedDict):
    budgets: list[BudgetRow]


@router.get("/timeline")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def timeline(
    by: Caller, api: TheApi, hours: Hours = 24, limit: Limit = 1_000
) -> Reply[TimelineReply]:
    """What each machine did when. Dollars are those of the ledger."""
    services = api.services
    hidden = await hidden_pools(api, by)
    now = services.clock.now().timestamp()
    since = now - hours * 3600.0
    machines = [each for each in await services.costs.machines() if each.life.pool not in hidden]
    found = await timelines(services.store, machines, since=since, now=now)
    lives = [_life(each) for each in found]
    lives += [_asked_for(view, now) for view in _asked(api) if view.pool not in hidden]
    lives.sort(key=lambda life: (life["spans"][0]["start"], life["id"]), reverse=True)
    return reply(
        {
            "since": epoch(since),
            "until": epoch(now),
            "machines": lives[:limit],
            "total": len(lives),
        }
    )


@router.get("/budgets")
@permit(Action.VIEW_CLUSTER, VISIBLE)
async def budgets(by: Caller, visible: Visible, api: TheApi) -> Reply[BudgetsReply]:
    """Of the cluster, of pools that the caller is shown, and of users whose work the caller may see."""
    hidden = await hidden_pools(api, by)
    provisioner = api.services.provisioner
    own = next((user.username for user in api.services.auth.users() if user.id == by.user_id), "")

    def is_shown(view: BudgetView) -> bool:
        if view.kind is BudgetKind.USER:
            return visible.is_everything or view.name == own
        return view.name not in hidden

    views = () if provisioner is None else provisioner.budgets()
    return reply({"budgets": [_budget(view) for view in views if is_shown(view)]})


def _asked(api: ApiContext) -> list[InstanceView]:
    provisioner = api.services.provisioner
    views = () if provisioner is None else provisioner.instances()
    return [view for view in views if view.state in ASKED_FOR]


def _life(found: MachineTimeline) -> MachineLife:
    record, life = found.machine.record, found.machine.life
    return {
        "id": life.instance_id,
        "pool": life.pool,
        "offer": shown_offer(record.offer.key),
        "slots": life.slots,
        "exists": life.end is None,
        "reason": record.reason,
        "usd": known_usd(found.usd),
        "usdPerHour": known_usd(life.usd_per_hour),
        "spans": [
            {"kind": span.kind, "start": epoch(span.start), "end": epoch(span.end)}
            for span in found.spans
        ],
    }


def _asked_for(view: InstanceView, now: float) -> MachineLife:
    return {
        "id": view.id,
        "pool": view.pool,
        "offer": shown_offer(view.offer),
        "slots": view.slots,
        "exists": True,
        "reason": view.reason,
        "usd": 0.0,
        "usdPerHour": known_usd(view.usd_per_hour),
        "spans": [
            {
                "kind": SpanKind.QUEUED,
                "start": epoch(view.created_at),
                "end": epoch(max(view.created_at, now)),
            }
        ],
    }


def _budget(view: BudgetView) -> BudgetRow:
    return {
        "kind": view.kind,
        "name": view.name,
        "spentUsd": view.spent_usd,
        "usdPerMonth": view.budget.usd_per_month,
        "usdPerHourNow": view.usd_per_hour,
        "usdPerHour": view.budget.usd_per_hour,
    }
