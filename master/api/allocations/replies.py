"""What containers are told."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from master.api.values import Timestamp
from windlass.base.json_types import JsonObject


class RendezvousInfo(TypedDict):
    addresses: list[str]
    slots: list[int]
    rank: int


class RendezvousReply(TypedDict):
    rendezvousInfo: RendezvousInfo


class GatheredReply(TypedDict):
    data: list[JsonObject]


class PreemptionReply(TypedDict):
    preempt: bool
    deadline: NotRequired[Timestamp | None]
    """Our own: when it will be killed."""
    reason: NotRequired[str]
    """Our own: why."""
