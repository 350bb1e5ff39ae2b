"""Access tokens: list, create, describe, revoke."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from master.api.access import Caller, require, require_password_login
from master.api.paging import pagination
from master.api.permits import IN_BODY, OWN, access_token, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Int32, Paging, RowId, Text, Word
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.users import wire
from master.api.users.replies import AccessTokenReply, AccessTokensReply, NewAccessTokenReply
from master.auth.actions import Action, Target
from master.auth.login_queries import TokenFilter
from master.auth.permissions import allowed

router = APIRouter(prefix="/api/v1/tokens", route_class=ApiRoute, tags=["access tokens"])

_SORTS = ("USER_ID", "EXPIRY", "CREATED_AT", "TOKEN_TYPE", "REVOKED", "DESCRIPTION")


class ListTokens(Paging):
    username: str = ""
    token_ids: tuple[Int32, ...] = ()
    show_inactive: bool = False
    """Also those that were revoked or have expired. Those that `tokenIds` names are shown anyway."""
    sort_by: Annotated[str, Word("SORT_BY_", _SORTS)] = ""


class PostToken(Body):
    user_id: Annotated[Int32, Field(ge=0)] = 0
    """Whom it acts for. 0: for the caller."""
    description: Text = ""
    lifespan: Text = ""
    """Such as "48h"; "-1" is the longest; empty: what master.yaml says."""


class PatchToken(Body):
    description: Text | None = None
    set_revoked: bool = False
    """For good."""


@router.get("")
@permit(Action.VIEW_TOKENS, OWN)
async def list_tokens(
    query: Annotated[ListTokens, Query()], by: Caller, api: TheApi
) -> Reply[AccessTokensReply]:
    """One's own; administrators see those of all."""
    name = query.username and api.services.auth.user_by_name(query.username).username
    where = TokenFilter(
        reader=None if allowed(by, Action.VIEW_TOKENS, Target()) else by.user_id,
        username=name,
        ids=query.token_ids,
        ended=query.show_inactive or bool(query.token_ids),
    )
    page = query.page(sort=query.sort_by.lower() or "id")
    found = await api.reads.logins.tokens(where, page, now=api.services.clock.now())
    items = [wire.token_info(row) for row in found.rows]
    return reply({"tokenInfo": items, "pagination": pagination(found)})


@router.post("")
@permit(Action.CREATE_TOKEN, IN_BODY)
async def create(body: PostToken, by: Caller, api: TheApi) -> Reply[NewAccessTokenReply]:
    """For oneself; administrators for others, too. The token is shown this once."""
    user_id = body.user_id or by.user_id
    require(api, by, Action.CREATE_TOKEN, Target(kind="user", id=user_id, owner_id=user_id))
    require_password_login(by, "make access tokens")
    token, token_id = await api.services.auth.create_access_token(
        user_id, lifespan=body.lifespan, description=body.description, by=by
    )
    return reply({"token": token, "tokenId": token_id})


@router.patch("/{access_token_id}")
@permit(Action.UPDATE_TOKEN, access_token("access_token_id"))
async def patch(
    access_token_id: RowId, body: PatchToken, by: Caller, api: TheApi
) -> Reply[AccessTokenReply]:
    await api.services.auth.access_tokens.edit(
        access_token_id, description=body.description, revoke=body.set_revoked, by=by
    )
    return reply({"tokenInfo": wire.token_info(await api.reads.logins.token(access_token_id))})
