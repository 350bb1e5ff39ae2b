"""What the machines cost, and for whom: our own addition to the API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import RowId
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.auth.actions import Action
from master.costs.lines import KEYS, GroupBy
from master.costs.reports import CostSum, experiment_cost, summed
from master.experiments.lifecycle.state import Phase
from provisioner.money.lifetimes import CostKind
from provisioner.money.months import month_of

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])


class CostRow(TypedDict):
    name: str
    """Of the pool, the user, ...; empty: of machines that nobody used."""
    usd: float
    busyUsd: float
    bootUsd: float
    idleUsd: float
    lostUsd: float
    stoppedUsd: float
    """Of disks, while their machines were stopped."""
    machineHours: float
    byUser: dict[str, float]
    """USD by user name, empty: nobody's. Only if asked for."""


class CostsReply(TypedDict):
    by: GroupBy
    month: str
    """2026-11, in UTC; empty: all months."""
    rows: list[CostRow]
    total: CostRow


class ExperimentCostReply(TypedDict):
    usd: float
    usdPerHour: float
    forecastUsd: float | None
    """Of the whole experiment; null: not known."""
    basis: str
    """What the forecast rests on, or why there is none."""


MonthQuery = Annotated[
    str | None,
    Query(pattern=r"^(all|[0-9]{4}-(0[1-9]|1[0-2]))$", description="2026-11, or all."),
]


@router.get("/fleet/costs")
@permit(Action.VIEW_CLUSTER, VISIBLE)
async def costs(
    caller: Caller,
    visible: Visible,
    api: TheApi,
    by: GroupBy = GroupBy.POOL,
    month: MonthQuery = None,
    users: Annotated[bool, Query(description="Also tell each sum by user.")] = False,
) -> Reply[CostsReply]:
    """By default of the current month. Sums by month are of all months."""
    services = api.services
    which = month or month_of(services.clock.now().timestamp())
    every = which == "all" or by is GroupBy.MONTH
    keys = tuple(dict.fromkeys((*KEYS[by], *(KEYS[GroupBy.USER] if users else ()))))
    lines = await services.costs.lines(None if every else which, keys=keys)
    names = {user.id: user.username for user in services.auth.users()}
    sums = summed(
        lines,
        by,
        usernames=names,
        is_visible=lambda job_id: services.jobs.is_visible(job_id, visible),
        projects=await services.costs.projects(lines) if by is GroupBy.PROJECT else None,
        hidden_pools=await hidden_pools(api, caller),
    )
    total = CostSum("total")
    for line in lines:
        total.add(line)
    rows = [_row(each, users=users) for each in sums]
    return reply(
        {"by": by, "month": "" if every else which, "rows": rows, "total": _row(total, users=False)}
    )


@router.get("/experiments/{id}/cost")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def experiment_costs(id: RowId, visible: Visible, api: TheApi) -> Reply[ExperimentCostReply]:
    """What its slots on elastic machines cost so far, and what the whole of it will."""
    experiment = (await api.reads.experiments.experiment(id, visible)).experiment
    costs = api.services.costs
    cost = experiment_cost(
        await costs.lines(experiment_id=id),
        usd_per_hour=await costs.usd_per_hour(id),
        progress=experiment.progress,
        is_over=Phase(experiment.state).is_terminal,
    )
    return reply(
        {
            "usd": cost.usd,
            "usdPerHour": cost.usd_per_hour,
            "forecastUsd": cost.forecast_usd,
            "basis": cost.basis,
        }
    )


def _row(each: CostSum, *, users: bool) -> CostRow:
    return {
        "name": each.name,
        "usd": each.total_usd,
        "busyUsd": each.usd.get(CostKind.BUSY, 0.0),
        "bootUsd": each.usd.get(CostKind.BOOT, 0.0),
        "idleUsd": each.usd.get(CostKind.IDLE, 0.0),
        "lostUsd": each.usd.get(CostKind.LOST, 0.0),
        "stoppedUsd": each.usd.get(CostKind.STOPPED, 0.0),
        "machineHours": each.hours,
        "byUser": each.by_user if users else {},
    }
