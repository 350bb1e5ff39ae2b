"""What pages remember of whoever looks at them: settings, and the projects looked at last."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from master.api import request_models
from master.api.access import Caller, Visible
from master.api.permits import OWN, VISIBLE, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, Text, Word
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.users.replies import RecentProjectsReply, SettingsReply
from master.api.workspaces import wire
from master.auth.actions import Action
from master.auth.user_settings import UserSetting
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["user settings"])

MOST_RECENT = 100
"""Projects of one answer."""


class SettingFields(Body):
    key: Text
    storage_path: Text = ""
    value: Text | None = None


class PostSettings(Body):
    settings: tuple[SettingFields, ...] = ()


class PostActivity(Body):
    activity_type: Annotated[str, Word("ACTIVITY_TYPE_", ("GET",))] = ""
    entity_type: Annotated[str, Word("ENTITY_TYPE_", ("PROJECT",))] = ""
    entity_id: Annotated[Int32, Field(ge=0)] = 0


class RecentProjects(request_models.Query):
    limit: Annotated[Int32, Field(ge=0)] = 0
    """0: as many as are answered at most."""


@router.get("/users/setting")
@permit(Action.USE_SETTINGS, OWN)
async def get_settings(by: Caller, api: TheApi) -> Reply[SettingsReply]:
    found = await api.services.user_settings.all(by.user_id)
    return reply(
        {
            "settings": [
                {"key": one.key, "storagePath": one.storage_path, "value": one.value}
                for one in found
            ]
        }
    )


@router.post("/users/setting")
@permit(Action.USE_SETTINGS, OWN)
async def put_settings(body: PostSettings, by: Caller, api: TheApi) -> Reply[Empty]:
    """Those of other keys stay."""
    given = [UserSetting(**one.model_dump()) for one in body.settings]
    await api.services.user_settings.put(given, by=by)
    return reply()


@router.post("/users/setting/reset")
@permit(Action.USE_SETTINGS, OWN)
async def reset_settings(by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.user_settings.reset(by=by)
    return reply()


@router.post("/users/activity")
@permit(Action.USE_SETTINGS, VISIBLE)
async def note_activity(
    body: PostActivity, by: Caller, visible: Visible, api: TheApi
) -> Reply[Empty]:
    """Somebody looks at a project."""
    if body.entity_type != "PROJECT" or body.activity_type != "GET":
        raise InvalidArgument(
            "activityType and entityType: must be ACTIVITY_TYPE_GET and ENTITY_TYPE_PROJECT: nothing else is noted"
        )
    await api.reads.workspaces.project(body.entity_id, visible)
    await api.services.workspaces.note_visit(body.entity_id, by=by)
    return reply()


@router.get("/user/projects/activity")
@permit(Action.USE_SETTINGS, VISIBLE)
async def recent_projects(
    query: Annotated[RecentProjects, Query()], by: Caller, visible: Visible, api: TheApi
) -> Reply[RecentProjectsReply]:
    """Those that the caller looked at, the last one first."""
    limit = min(query.limit or MOST_RECENT, MOST_RECENT)
    rows = await api.reads.workspaces.recent_projects(by.user_id, limit, visible)
    return reply({"projects": [wire.project(row) for row in rows]})
