"""Webhooks, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.values import Timestamp
from windlass.base.formats.json_types import JsonObject


class TriggerReply(TypedDict):
    id: int
    webhookId: int
    triggerType: str
    condition: JsonObject


class WebhookJson(TypedDict):
    id: int
    name: str
    url: str
    """Of which those who may not change it see the host alone: paths of chat systems are secrets."""
    webhookType: str
    mode: str
    workspaceId: int
    """0: of the whole cluster."""
    triggers: list[TriggerReply]


class WebhooksReply(TypedDict):
    webhooks: list[WebhookJson]


class WebhookReply(TypedDict):
    webhook: WebhookJson


class TestedWebhookReply(TypedDict):
    completed: bool


class SigningKeyReply(TypedDict):
    signingKey: str


class DeliveryJson(TypedDict):
    eventId: str
    eventType: str
    condition: JsonObject
    experimentId: int | None
    createdAt: Timestamp
    attempts: int
    lastResult: str
    """In words; empty: not tried yet."""
    nextTry: Timestamp | None
    """None: it is over."""
    deliveredAt: Timestamp | None


class DeliveriesReply(TypedDict):
    deliveries: list[DeliveryJson]
    """The newest first."""
