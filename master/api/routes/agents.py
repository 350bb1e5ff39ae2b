"""Agents as operators see them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator

from master.api.access import Admin, Caller
from master.api.bodies import ApiRoute
from master.api.errors import Unimplemented
from master.api.models import Body, Paging, word
from master.api.paging import pagination
from master.api.replies import reply
from master.api.services import Api, TheApi
from master.api.wire.agents import agent as agent_json
from master.experiments.paging import cut
from rm_backends.base import AgentView

router = APIRouter(prefix="/api/v1/agents", route_class=ApiRoute, tags=["agents"])


class ListAgents(Paging):
    sort_by: Annotated[str, AfterValidator(word("SORT_BY_", ("ID", "TIME")))] = ""
    exclude_slots: bool = False
    exclude_containers: bool = False


@router.get("")
async def list_agents(
    query: Annotated[ListAgents, Query()], principal: Caller, api: TheApi
) -> Response:
    views = list(api.services.agents.agents())
    if query.sort_by == "TIME":
        views.sort(key=lambda view: (view.registered, view.id))
    if query.order_by == "DESC":
        views.reverse()
    page = cut(views, query.page())
    runs = api.services.allocations.open_states()
    agents = [
        agent_json(
            view,
            runs,
            with_slots=not query.exclude_slots,
            with_containers=not query.exclude_containers,
        )
        for view in page.rows
    ]
    return reply({"agents": agents, "pagination": pagination(page)})


@router.get("/{agent_id}")
async def get(agent_id: str, principal: Caller, api: TheApi) -> Response:
    return _one(api, api.services.agents.agent(agent_id))


@router.post("/{agent_id}/enable")
async def enable(agent_id: str, principal: Admin, api: TheApi) -> Response:
    return _one(api, await api.services.agents.enable_agent(agent_id))


class Disable(Body):
    drain: bool = False


@router.post("/{agent_id}/disable")
async def disable(agent_id: str, body: Disable, principal: Admin, api: TheApi) -> Response:
    return _one(api, await api.services.agents.disable_agent(agent_id, drain=body.drain))


@router.post("/{agent_id}/slots/{slot_id}/enable")
@router.post("/{agent_id}/slots/{slot_id}/disable")
async def slot(agent_id: str, slot_id: str, principal: Admin, api: TheApi) -> Response:
    raise Unimplemented(
        "single slots cannot be enabled or disabled yet: enable or disable the whole agent"
    )


def _one(api: Api, view: AgentView) -> Response:
    return reply({"agent": agent_json(view, api.services.allocations.open_states())})
