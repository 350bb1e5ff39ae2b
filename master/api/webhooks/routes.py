"""Webhooks: list, create, change, delete, test, look at the calls."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Query
from pydantic import Field

from master.api import targets
from master.api.access import Caller, Visible, require
from master.api.permits import CLUSTER, IN_BODY, VISIBLE, permit, webhook
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, FreeObject, Int32, RowId, Text, Word
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import time
from master.api.webhooks.replies import (
    DeliveriesReply,
    DeliveryJson,
    SigningKeyReply,
    TestedWebhookReply,
    WebhookJson,
    WebhookReply,
    WebhooksReply,
)
from master.auth.actions import Action, Target
from master.auth.permissions import allowed
from master.auth.principal import Principal
from master.core.webhooks.types import TriggerType, Webhook, WebhookMode, WebhookType
from master.store import tables
from master.webhooks.service import NewTrigger, NewWebhook, deliveries
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["webhooks"])

TYPES, MODES, TRIGGERS = "WEBHOOK_TYPE_", "WEBHOOK_MODE_", "TRIGGER_TYPE_"


class TriggerBody(Body):
    trigger_type: Annotated[str, Word(TRIGGERS, tuple(TriggerType))] = ""
    condition: FreeObject | None = None


class PostWebhook(Body):
    name: Text
    url: Text
    webhook_type: Annotated[str, Word(TYPES, tuple(WebhookType))] = ""
    mode: Annotated[str, Word(MODES, tuple(WebhookMode))] = ""
    """Unspecified: WORKSPACE."""
    workspace_id: Annotated[Int32, Field(ge=0)] = 0
    """0: of the whole cluster."""
    triggers: tuple[TriggerBody, ...] = ()


class PatchWebhook(Body):
    url: Text


class ListDeliveries(Body):
    limit: Annotated[Int32, Field(ge=1, le=1000)] = 100


@router.get("/webhooks")
@permit(Action.VIEW_WEBHOOKS, VISIBLE)
async def list_webhooks(by: Caller, visible: Visible, api: TheApi) -> Reply[WebhooksReply]:
    """Those of the cluster, and of the workspaces that one may see, by id."""
    found = [
        one
        for one in sorted(api.services.webhook_registry.all(), key=lambda one: one.id)
        if one.workspace_id is None or one.workspace_id in visible
    ]
    scopes = {
        id_: await targets.webhook_scope(api, id_) for id_ in {one.workspace_id for one in found}
    }
    return reply({"webhooks": [_json(by, one, scopes[one.workspace_id]) for one in found]})


@router.post("/webhooks")
@permit(Action.EDIT_WEBHOOKS, IN_BODY)
async def create(body: PostWebhook, by: Caller, api: TheApi) -> Reply[WebhookReply]:
    workspace_id = body.workspace_id or None
    scope = await targets.webhook_scope(api, workspace_id)
    require(api, by, Action.EDIT_WEBHOOKS, scope)
    if not body.webhook_type:
        raise InvalidArgument(
            f"webhookType: must be one of {', '.join(TYPES + t for t in WebhookType)}"
        )
    new = NewWebhook(
        name=body.name,
        url=body.url,
        type=WebhookType(body.webhook_type),
        mode=WebhookMode(body.mode or WebhookMode.WORKSPACE),
        workspace_id=workspace_id,
        triggers=[_trigger(one, number) for number, one in enumerate(body.triggers)],
    )
    id_ = await api.services.webhooks.create(new, by=by)
    return reply({"webhook": _json(by, api.services.webhooks.webhook(id_), scope)})


@router.patch("/webhooks/{webhook_id}")
@permit(Action.EDIT_WEBHOOKS, webhook("webhook_id"))
async def patch(webhook_id: RowId, body: PatchWebhook, by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.webhooks.set_url(webhook_id, body.url, by=by)
    return reply()


@router.delete("/webhooks/{webhook_id}")
@permit(Action.EDIT_WEBHOOKS, webhook("webhook_id"))
async def delete(webhook_id: RowId, by: Caller, api: TheApi) -> Reply[Empty]:
    """Calls that wait are not made."""
    await api.services.webhooks.delete(webhook_id, by=by)
    return reply()


@router.post("/webhooks/{webhook_id}/test")
@permit(Action.EDIT_WEBHOOKS, webhook("webhook_id"))
async def test(webhook_id: RowId, api: TheApi) -> Reply[TestedWebhookReply]:
    """One call, now."""
    await api.services.webhooks.test(webhook_id)
    return reply({"completed": True})


@router.get("/windlass/webhooks/{webhook_id}/deliveries")
@permit(Action.EDIT_WEBHOOKS, webhook("webhook_id"))
async def list_deliveries(
    webhook_id: RowId, query: Annotated[ListDeliveries, Query()], api: TheApi
) -> Reply[DeliveriesReply]:
    """Calls that wait, and those of the last days, with what became of them."""
    rows = await deliveries(api.services.store, webhook_id, query.limit)
    return reply({"deliveries": [_delivery(row) for row in rows]})


@router.get("/windlass/webhook-signing-key")
@permit(Action.ADMINISTRATE_CLUSTER, CLUSTER)
async def signing_key(api: TheApi) -> Reply[SigningKeyReply]:
    """By which receivers know that a call is of this cluster."""
    return reply({"signingKey": api.services.webhooks.signing_key})


def _trigger(given: TriggerBody, number: int) -> NewTrigger:
    if not given.trigger_type:
        known = ", ".join(TRIGGERS + one for one in TriggerType)
        raise InvalidArgument(f"triggers[{number}].triggerType: must be one of {known}")
    return NewTrigger(given.trigger_type, given.condition or {})


def _json(by: Principal, one: Webhook, scope: Target) -> WebhookJson:
    shows = allowed(by, Action.EDIT_WEBHOOKS, scope)
    return {
        "id": one.id,
        "name": one.name,
        "url": one.url if shows else _without_path(one.url),
        "webhookType": TYPES + one.type,
        "mode": MODES + one.mode,
        "workspaceId": one.workspace_id or 0,
        "triggers": [
            {
                "id": trigger.id,
                "webhookId": one.id,
                "triggerType": TRIGGERS + trigger.type,
                "condition": dict(trigger.condition),
            }
            for trigger in one.triggers
        ],
    }


def _without_path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/********"


def _delivery(row: tables.WebhookEvent) -> DeliveryJson:
    experiment = row.facts.get("experiment") or {}
    return {
        "eventId": row.event_id,
        "eventType": row.type,
        "condition": row.condition,
        "experimentId": experiment.get("id"),
        "createdAt": time(row.created_at),
        "attempts": row.attempts,
        "lastResult": row.last_result,
        "nextTry": None if row.next_try is None else time(row.next_try),
        "deliveredAt": None if row.delivered_at is None else time(row.delivered_at),
    }
