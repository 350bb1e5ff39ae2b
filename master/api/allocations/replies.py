"""What containers are told."""

from __future__ import annotations

from typing_extensions import TypedDict

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
