"""Templates: list, look, create, change, rename, remove. Names may have slashes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi import Body as JsonBody
from pydantic import Field

from master.api import targets
from master.api.access import Caller, Visible, require
from master.api.paging import pagination
from master.api.permits import IN_BODY, SOME, VISIBLE, new_template, permit, template
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, FreeObject, Int32, Paging, Text, Word
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.templates import wire
from master.api.templates.replies import StoredTemplateReply, TemplateReply, TemplatesReply
from master.auth.actions import Action
from master.auth.permissions import visibility
from master.auth.principal import Principal
from master.core.visibility import EVERYTHING, Visibility
from master.templates.queries import TemplateFilter
from master.templates.service import May, NewTemplate, Warnings

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["templates"])

ONE = "/templates/{template_name:path}"
TemplateName = Annotated[Text, Path(min_length=1)]
UNCATEGORIZED = 1


class PostTemplate(Body):
    """Named by the path."""

    name: Text = ""
    config: FreeObject
    workspace_id: Annotated[Int32, Field(ge=0)] = 0
    """0: the first one."""


class RenameTemplate(Body):
    old_name: Text
    new_name: Text


class ListTemplates(Paging):
    name: str = ""
    """A part of it."""
    workspace_ids: tuple[Int32, ...] = ()
    sort_by: Annotated[str, Word("SORT_BY_", ("NAME",))] = ""


@router.get("/templates")
@permit(Action.VIEW_TEMPLATES, VISIBLE)
async def list_templates(
    query: Annotated[ListTemplates, Query()], visible: Visible, api: TheApi
) -> Reply[TemplatesReply]:
    where = TemplateFilter(name=query.name, workspace_ids=tuple(query.workspace_ids))
    found = await api.reads.templates.templates(where, query.page(sort="name"), visible)
    items = [wire.template(row, visible) for row in found.rows]
    return reply({"templates": items, "pagination": pagination(found)})


@router.get(ONE)
@permit(Action.VIEW_TEMPLATES, VISIBLE)
async def get(template_name: TemplateName, visible: Visible, api: TheApi) -> Reply[TemplateReply]:
    row = await api.reads.templates.template(template_name, visible)
    return reply({"template": wire.template(row, visible)})


@router.post(ONE)
@permit(Action.CREATE_TEMPLATE, SOME)
async def create(
    template_name: TemplateName, body: PostTemplate, by: Caller, visible: Visible, api: TheApi
) -> Reply[StoredTemplateReply]:
    new = await _new(api, template_name, body, visible)
    await targets.require_new(api, by, Action.CREATE_TEMPLATE, workspace_id=new.workspace_id)
    warnings = await api.services.templates.create(new, by=by)
    return await _stored(api, new.name, warnings, visible)


@router.put(ONE)
@permit(Action.UPDATE_TEMPLATE, new_template("template_name"))
async def put(
    template_name: TemplateName, body: PostTemplate, by: Caller, visible: Visible, api: TheApi
) -> Reply[StoredTemplateReply]:
    """Creates it, or replaces the configuration of the one that is there."""
    if await api.reads.templates.find(template_name, EVERYTHING) is None:
        visible = visibility(by, Action.CREATE_TEMPLATE)
        new = await _new(api, template_name, body, visible)
        await targets.require_new(api, by, Action.CREATE_TEMPLATE, workspace_id=new.workspace_id)
    else:
        new = await _new(api, template_name, body, visible)
    may = _may(api, by, Action.UPDATE_TEMPLATE)
    warnings = await api.services.templates.put(new, by=by, may=may)
    return await _stored(api, new.name, warnings, visible)


@router.patch(ONE)
@permit(Action.UPDATE_TEMPLATE, template("template_name"))
async def set_config(
    template_name: TemplateName,
    config: Annotated[FreeObject, JsonBody()],
    by: Caller,
    visible: Visible,
    api: TheApi,
) -> Reply[StoredTemplateReply]:
    """The body is the configuration, which replaces the one that is there."""
    may = _may(api, by, Action.UPDATE_TEMPLATE)
    warnings = await api.services.templates.set_config(template_name, config, by=by, may=may)
    return await _stored(api, template_name, warnings, visible)


@router.patch("/template/rename")
@permit(Action.UPDATE_TEMPLATE, IN_BODY)
async def rename(
    body: RenameTemplate, by: Caller, visible: Visible, api: TheApi
) -> Reply[TemplateReply]:
    target = await targets.template_target(api, body.old_name)
    require(api, by, Action.UPDATE_TEMPLATE, target)
    may = _may(api, by, Action.UPDATE_TEMPLATE)
    name = await api.services.templates.rename(body.old_name, body.new_name, by=by, may=may)
    row = await api.reads.templates.template(name, visible)
    return reply({"template": wire.template(row, visible)})


@router.delete(ONE)
@permit(Action.DELETE_TEMPLATE, template("template_name"))
async def remove(template_name: TemplateName, by: Caller, api: TheApi) -> Reply[Empty]:
    may = _may(api, by, Action.DELETE_TEMPLATE)
    await api.services.templates.remove(template_name, by=by, may=may)
    return reply()


async def _new(api: ApiContext, name: str, body: PostTemplate, visible: Visibility) -> NewTemplate:
    """Raises NotFound for an unknown workspace."""
    workspace_id = body.workspace_id or UNCATEGORIZED
    await api.reads.workspaces.workspace(workspace_id, visible)
    return NewTemplate(name=name, config=body.config, workspace_id=workspace_id)


async def _stored(
    api: ApiContext, name: str, warnings: Warnings, visible: Visibility
) -> Reply[StoredTemplateReply]:
    row = await api.reads.templates.template(name, visible)
    return reply({"template": wire.template(row, visible), "configWarnings": list(warnings)})


def _may(api: ApiContext, by: Principal, action: Action) -> May:
    return lambda row: require(api, by, action, targets.of_template(row))
