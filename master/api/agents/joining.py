"""What a machine asks before and after its agent runs. It shows a join token, its credential, or both."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.requests import HTTPConnection

from agent_bootstrap.bounds import Id, Name
from agent_bootstrap.protocol import CREDENTIAL_HEADER
from master.api.access import token_in
from master.api.agents.replies import AgentStatusReply
from master.api.permits import public
from master.api.replies import Reply, reply
from master.api.request_models import Body, Time
from master.api.request_models import Query as Parameters
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from rm_backends.views import AgentStatus, JoinRequest
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1/windlass/join", route_class=ApiRoute, tags=["agents"])

MIN_CREDENTIAL = 32
MAX_CREDENTIAL = 128


class Join(Body):
    agent_id: Id
    version: Name = ""
    protocol: Annotated[int, Field(ge=0, lt=2**31)]
    pool: Name = ""
    """Empty: that of the join token."""
    instance_id: Id | None = None


class Ask(Parameters):
    agent_id: Id
    since: Time | None = None
    """Tell no refusal that is older."""


class Leave(Body):
    agent_id: Id
    stop: bool = False
    """End what runs there now."""


@router.post("")
@public
async def join(request: Request, body: Join, api: TheApi) -> Reply[AgentStatusReply]:
    """Bind the credential to the agent. May be repeated: an agent that has joined needs no token."""
    asked = JoinRequest(
        agent_id=body.agent_id,
        version=body.version,
        protocol=body.protocol,
        pool=body.pool,
        instance_id=body.instance_id,
    )
    standing = await api.services.joins.join(
        asked,
        token=token_in(request.scope["headers"]),
        credential=_credential(request),
        peer=request.client.host if request.client else "",
    )
    return _reply(api, standing)


@router.get("")
@public
async def standing(
    request: Request, query: Annotated[Ask, Query()], api: TheApi
) -> Reply[AgentStatusReply]:
    """How the agent with this credential stands."""
    joins = api.services.joins
    return _reply(api, joins.standing(query.agent_id, _credential(request), query.since))


@router.post("/leave")
@public
async def leave(request: Request, body: Leave, api: TheApi) -> Reply[AgentStatusReply]:
    """No more work for the agent; once it runs nothing, it and its credential are forgotten."""
    joins = api.services.joins
    return _reply(api, await joins.leave(body.agent_id, _credential(request), stop=body.stop))


def _credential(connection: HTTPConnection) -> str:
    """Raises InvalidArgument."""
    credential = connection.headers.get(CREDENTIAL_HEADER, "")
    if not MIN_CREDENTIAL <= len(credential) <= MAX_CREDENTIAL:
        raise InvalidArgument(
            f"{CREDENTIAL_HEADER}: an agent shows a credential of {MIN_CREDENTIAL} to {MAX_CREDENTIAL} characters"
        )
    return credential


def _reply(api: ApiContext, standing: AgentStatus) -> Reply[AgentStatusReply]:
    info = api.services.info
    return reply(
        {
            "agentId": standing.agent_id,
            "pool": standing.pool,
            "member": standing.member,
            "connected": standing.connected,
            "slots": standing.slots,
            "containers": standing.containers,
            "refused": standing.refused,
            "clusterId": info.cluster_id,
            "clusterName": info.cluster_name,
            "masterVersion": info.windlass_version,
        }
    )
