"""Agents as operators see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query

from master.api.access import Caller
from master.api.agents.replies import AgentReply, AgentsReply, SlotReply, SlotsReply
from master.api.agents.wire import agent as agent_json
from master.api.agents.wire import container_states, without_details
from master.api.agents.wire import slot as slot_json
from master.api.enums import ContainerState
from master.api.paging import pagination
from master.api.permits import CLUSTER, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Paging, Word
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.auth.actions import Action
from master.auth.permissions import allowed
from master.auth.principal import Principal
from master.store.paging import cut
from rm_backends.views import AgentView, SlotView
from windlass.base.errors import NotFound

router = APIRouter(prefix="/api/v1/agents", route_class=ApiRoute, tags=["agents"])


class ListAgents(Paging):
    sort_by: Annotated[str, Word("SORT_BY_", ("ID", "TIME"))] = ""
    exclude_slots: bool = False
    exclude_containers: bool = False


@router.get("")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def list_agents(
    query: Annotated[ListAgents, Query()], by: Caller, api: TheApi
) -> Reply[AgentsReply]:
    keys = list(api.services.cluster.agent_keys())
    if query.sort_by == "TIME":
        keys.sort(key=lambda key: (key.registered, key.id))
    if query.order_by == "DESC":
        keys.reverse()
    page = cut(keys, query.page())
    views = [api.services.cluster.agent(key.id) for key in page.rows]
    states = _container_states(api, *views)
    agents = [
        agent_json(
            view,
            states,
            with_slots=not query.exclude_slots,
            with_containers=not query.exclude_containers,
        )
        for view in views
    ]
    if not allowed(by, Action.VIEW_AGENT_DETAILS):
        hidden = await hidden_pools(api, by)
        agents = [without_details(agent, hidden) for agent in agents]
    return reply({"agents": agents, "pagination": pagination(page)})


@router.get("/{agent_id}")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def get(agent_id: str, by: Caller, api: TheApi) -> Reply[AgentReply]:
    _require_details(agent_id, by)
    return _one(api, api.services.cluster.agent(agent_id))


@router.post("/{agent_id}/enable")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def enable(agent_id: str, principal: Caller, api: TheApi) -> Reply[AgentReply]:
    return _one(api, await api.services.operator_of(agent_id).enable_agent(agent_id, by=principal))


class Disable(Body):
    drain: bool = False


@router.post("/{agent_id}/disable")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def disable(
    agent_id: str, body: Disable, principal: Caller, api: TheApi
) -> Reply[AgentReply]:
    return _one(
        api,
        await api.services.operator_of(agent_id).disable_agent(
            agent_id, drain=body.drain, by=principal
        ),
    )


@router.get("/{agent_id}/slots")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def list_slots(agent_id: str, by: Caller, api: TheApi) -> Reply[SlotsReply]:
    _require_details(agent_id, by)
    agent = api.services.cluster.agent(agent_id)
    states = _container_states(api, agent)
    slots = sorted(agent.slots, key=lambda slot: slot.id)
    return reply({"slots": [slot_json(view, states) for view in slots]})


@router.get("/{agent_id}/slots/{slot_id}")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def get_slot(agent_id: str, slot_id: str, by: Caller, api: TheApi) -> Reply[SlotReply]:
    _require_details(agent_id, by)
    return _one_slot(api, _slot(api, agent_id, slot_id))


@router.post("/{agent_id}/slots/{slot_id}/enable")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def enable_slot(
    agent_id: str, slot_id: str, principal: Caller, api: TheApi
) -> Reply[SlotReply]:
    slot = _slot(api, agent_id, slot_id)
    return _one_slot(
        api, await api.services.operator_of(agent_id).enable_slot(agent_id, slot.id, by=principal)
    )


@router.post("/{agent_id}/slots/{slot_id}/disable")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def disable_slot(
    agent_id: str, slot_id: str, body: Disable, principal: Caller, api: TheApi
) -> Reply[SlotReply]:
    slot = _slot(api, agent_id, slot_id)
    view = await api.services.operator_of(agent_id).disable_slot(
        agent_id, slot.id, drain=body.drain, by=principal
    )
    return _one_slot(api, view)


def _require_details(agent_id: str, by: Principal) -> None:
    """Who may not know the ids of agents asks for none. Raises NotFound."""
    if not allowed(by, Action.VIEW_AGENT_DETAILS):
        raise NotFound("agent", agent_id)


def _one(api: ApiContext, view: AgentView) -> Reply[AgentReply]:
    return reply({"agent": agent_json(view, _container_states(api, view))})


def _one_slot(api: ApiContext, view: SlotView) -> Reply[SlotReply]:
    ids = () if view.allocation_id is None else (view.allocation_id,)
    states = container_states(api.services.allocations.open_states(ids).values())
    return reply({"slot": slot_json(view, states)})


def _container_states(api: ApiContext, *agents: AgentView) -> Mapping[str, ContainerState]:
    """Of what these agents run: the cluster may run thousands of containers more."""
    ids = {id_ for agent in agents for id_ in agent.containers.values()}
    return container_states(api.services.allocations.open_states(ids).values())


def _slot(api: ApiContext, agent_id: str, slot_id: str) -> SlotView:
    """By its id as the API writes it. Raises NotFound, for the agent or for the slot."""
    for slot in api.services.cluster.agent(agent_id).slots:
        if str(slot.id) == slot_id:
            return slot
    raise NotFound(f"agent '{agent_id}': slot", slot_id)
