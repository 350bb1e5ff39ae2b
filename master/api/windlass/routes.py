"""What the published API does not know: machines and money, and why things wait."""

from __future__ import annotations

from fastapi import APIRouter

from master.api.access import Caller, Visible
from master.api.permits import CLUSTER, VISIBLE, allocation, permit
from master.api.replies import Reply, reply
from master.api.request_models import RowId
from master.api.resource_pools.shown import hidden_pools, shown_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import reason, time
from master.api.windlass.replies import (
    FleetReply,
    ForgottenAgentReply,
    Pool,
    PoolsReply,
    ReasonReply,
    ReasonsReply,
    RefusedAgent,
    RefusedAgentsReply,
    WaitingInPool,
)
from master.api.windlass.wire import GONE, NO_COST, activity, blocked, cost, instance
from master.auth.actions import Action
from master.core.visibility import Visibility
from provisioner.types import InstanceView
from rm_backends.views import PoolView, QueueState

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])


@router.get("/fleet")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def fleet(by: Caller, api: TheApi) -> Reply[FleetReply]:
    """Machines of pools that the caller is shown; what is bought and spent is of all."""
    hidden = await hidden_pools(api, by)
    provisioner = api.services.provisioner
    now = api.services.clock.now().timestamp()
    spent = NO_COST if provisioner is None else cost(provisioner.cost())
    refused = () if provisioner is None else provisioner.blocked_offers()
    return reply(
        {
            "instances": [
                instance(view, now) for view in _instances(api) if view.pool not in hidden
            ],
            "blockedOffers": [blocked(view) for view in refused],
            **spent,
        }
    )


@router.get("/refused-agents")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def refused_agents(api: TheApi) -> Reply[RefusedAgentsReply]:
    """Agents whose connections this master has refused, newest first."""
    refused: list[RefusedAgent] = [
        {
            "id": view.agent_id,
            "pool": view.pool,
            "address": view.address,
            "version": view.version,
            "reason": view.reason,
            "firstAt": time(view.first),
            "lastAt": time(view.last),
            "times": view.times,
        }
        for view in api.services.refused_agents()
    ]
    return reply({"refused": refused})


@router.delete("/agents/{agent_id}")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def forget_agent(
    agent_id: str, principal: Caller, api: TheApi, force: bool = False
) -> Reply[ForgottenAgentReply]:
    """Its id is free, its credential worth nothing. `force`: also while it is connected."""
    was = await api.services.operator_of(agent_id).forget_agent(agent_id, force=force, by=principal)
    return reply({"lostAllocations": sorted(set(was.containers.values()))})


@router.get("/pools")
@permit(Action.VIEW_CLUSTER, VISIBLE)
async def pools(by: Caller, visible: Visible, api: TheApi) -> Reply[PoolsReply]:
    return reply({"pools": [_pool(api, view, visible) for view in await shown_pools(api, by)]})


@router.get("/experiments/{id}/reasons")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def reasons(id: RowId, visible: Visible, api: TheApi) -> Reply[ReasonsReply]:
    """Of every trial that waits; empty once the experiment is over."""
    await api.reads.experiments.require_experiments([id], visible)
    live = api.services.experiments.live(id)
    if live is None:
        return reply({"reasons": {}})
    waiting = api.services.experiments.waiting_reasons(live.waiting_trials())
    return reply({"reasons": {str(trial): reason(why) for trial, why in waiting.items()}})


@router.get("/allocations/{id}/reason")
@permit(Action.VIEW_ARTIFACTS, allocation("id"))
async def allocation_reason(id: str, api: TheApi) -> Reply[ReasonReply]:
    """Null if it does not wait."""
    api.services.allocations.state(id)
    return reply({"reason": reason(api.services.allocations.rm.explain(id))})


def _instances(api: ApiContext) -> list[InstanceView]:
    """Those that exist."""
    provisioner = api.services.provisioner
    views = provisioner.instances() if provisioner is not None else ()
    return [view for view in views if view.state != GONE]


def _pool(api: ApiContext, view: PoolView, visible: Visibility) -> Pool:
    launching = [
        instance
        for instance in _instances(api)
        if instance.pool == view.name and activity(instance) == "booting"
    ]
    waiting: list[WaitingInPool] = [
        {
            "allocationId": entry.allocation_id,
            "taskId": entry.task_id,
            "name": entry.name,
            "slots": entry.slots,
            "since": time(entry.requested),
            "reason": reason(entry.reason),
        }
        for entry in api.services.cluster.queue(view.name)
        if entry.state is QueueState.QUEUED and api.services.jobs.is_visible(entry.job.id, visible)
    ]
    return {
        "name": view.name,
        "type": view.type,
        "elastic": view.dynamic,
        "agents": view.agents,
        "slotsTotal": view.slots,
        "slotsUsed": view.slots_used,
        "slotsFree": max(0, view.slots - view.slots_used),
        "slotsLaunching": sum(instance.slots for instance in launching),
        "instancesLaunching": len(launching),
        "running": view.running,
        "waiting": waiting,
    }
