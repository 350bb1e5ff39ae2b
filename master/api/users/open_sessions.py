"""Where users are logged in: list, and end."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from master.api.access import Caller
from master.api.paging import pagination
from master.api.permits import permit, session, user
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Paging, RowId
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.users import wire
from master.api.users.replies import EndedSessionsReply, SessionsReply
from master.auth.actions import Action

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["sessions"])


@router.get("/users/{user_id}/sessions")
@permit(Action.MANAGE_SESSIONS, user("user_id"))
async def list_sessions(
    user_id: RowId, query: Annotated[Paging, Query()], by: Caller, api: TheApi
) -> Reply[SessionsReply]:
    now = api.services.clock.now()
    found = await api.reads.logins.sessions(user_id, query.page(), now=now)
    items = [
        wire.session(row, used_at=api.services.auth.session_used_at(row.id), current=by.session_id)
        for row in found.rows
    ]
    return reply({"sessions": items, "pagination": pagination(found)})


@router.delete("/users/{user_id}/sessions")
@permit(Action.MANAGE_SESSIONS, user("user_id"))
async def end_all(user_id: RowId, by: Caller, api: TheApi) -> Reply[EndedSessionsReply]:
    """All but the one that asks."""
    number = await api.services.auth.end_sessions(user_id, keep=by.session_id, by=by)
    return reply({"ended": number})


@router.delete("/sessions/{session_id}")
@permit(Action.MANAGE_SESSIONS, session("session_id"))
async def end(session_id: RowId, by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.auth.end_session(session_id, by=by)
    return reply()
