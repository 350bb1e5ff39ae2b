"""Join tokens: what lets a machine become an agent of a pool."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller
from master.api.permits import CLUSTER, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Text
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Timestamp, time
from master.auth.actions import Action
from master.auth.issued_tokens import MAX_AGENTS, MAX_LENGTH, TokenState, TokenView, Wanted
from windlass.base.errors import NotFound


class JoinToken(TypedDict):
    id: str
    token: str
    """Masked."""
    pool: str
    description: str
    state: TokenState
    agents: list[str]
    """Who may join with it; empty: any new agent."""
    uses: int | None
    """How many agents may; null: any number."""
    joined: list[str]
    """Who did."""
    lastUsedAt: Timestamp | None
    createdAt: Timestamp
    createdBy: str
    expiresAt: Timestamp | None
    revokedAt: Timestamp | None


class JoinTokensReply(TypedDict):
    joinTokens: list[JoinToken]


class NewJoinTokenReply(TypedDict):
    joinToken: JoinToken
    token: str
    """In clear, this once."""
    masterUrl: str
    """By which the master tells agents to reach it."""
    certFingerprint: str
    """By which agents know the master; empty without TLS."""


class JoinTokenReply(TypedDict):
    joinToken: JoinToken


router = APIRouter(
    prefix="/api/v1/windlass/join-tokens", route_class=ApiRoute, tags=["join tokens"]
)

AgentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$")]


class NewJoinToken(Body):
    pool: Text = "default"
    valid_s: Annotated[float, Field(gt=0, le=MAX_LENGTH.total_seconds())] = 3600.0
    until_revoked: bool = False
    """It does not expire; `validS` does not count."""
    uses: Annotated[int, Field(ge=1, le=MAX_AGENTS)] = 1
    any_number: bool = False
    """Any number of agents; `uses` does not count."""
    agents: Annotated[list[AgentName], Field(max_length=1000)] = Field(default_factory=list)
    """Only these, once each; `uses` does not count."""
    description: Text = ""


@router.get("")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def list_tokens(api: TheApi) -> Reply[JoinTokensReply]:
    views = await api.services.join_tokens.views()
    return reply({"joinTokens": [_json(view) for view in views]})


@router.post("")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def create(body: NewJoinToken, principal: Caller, api: TheApi) -> Reply[NewJoinTokenReply]:
    wanted = Wanted(
        pool=body.pool,
        valid=None if body.until_revoked else timedelta(seconds=body.valid_s),
        agents=None if body.any_number else body.uses,
        names=frozenset(body.agents),
        description=body.description,
    )
    token, made = await api.services.join_tokens.create(wanted, by=principal)
    return reply(
        {
            "joinToken": _json(await _view(api, made.id)),
            "token": token,
            "masterUrl": api.services.master_url,
            "certFingerprint": api.services.certificate_fingerprint(),
        }
    )


@router.delete("/{token_id}")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def revoke(token_id: str, principal: Caller, api: TheApi) -> Reply[JoinTokenReply]:
    """Nobody joins with it any more; agents that did stay."""
    await api.services.join_tokens.revoke(token_id, by=principal)
    return reply({"joinToken": _json(await _view(api, token_id))})


async def _view(api: TheApi, token_id: str) -> TokenView:
    for view in await api.services.join_tokens.views():
        if view.token.id == token_id:
            return view
    raise NotFound("join token", token_id)


def _json(view: TokenView) -> JoinToken:
    token = view.token
    return {
        "id": token.id,
        "token": token.masked,
        "pool": token.pool,
        "description": token.description,
        "state": view.state,
        "agents": sorted(token.names),
        "uses": token.agents,
        "joined": list(view.joined),
        "lastUsedAt": time(view.last_used),
        "createdAt": time(token.created),
        "createdBy": token.created_by,
        "expiresAt": time(token.expires),
        "revokedAt": time(token.revoked),
    }
