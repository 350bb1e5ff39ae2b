"""Barriers of one allocation: its containers wait here for each other. Memory only; tasks ask again after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousInfo:
    """Position in `addresses` and `slots` is the rank."""

    addresses: tuple[str, ...]
    slots: tuple[int, ...]
    rank: int


@dataclass(slots=True)
class _Barrier:
    arrived: set[str] = field(default_factory=set)
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class Rendezvous:
    """Every container of an allocation must have arrived before any goes on. Arriving again is harmless."""

    def __init__(self) -> None:
        self._barriers: dict[str, _Barrier] = {}

    def arrive(self, allocation_id: str, container_id: str, expected: frozenset[str]) -> bool:
        """True when it is complete: now, or by an earlier arrival whose consequences may not be committed."""
        barrier = self._barriers.setdefault(allocation_id, _Barrier())
        barrier.arrived.add(container_id)
        if barrier.arrived >= expected:
            barrier.complete.set()
        return barrier.complete.is_set()

    async def wait(self, allocation_id: str) -> None:
        """Returns when complete, or when the allocation was dropped (the caller looks again)."""
        barrier = self._barriers.get(allocation_id)
        if barrier is not None:
            await barrier.complete.wait()

    def drop(self, allocation_id: str) -> None:
        barrier = self._barriers.pop(allocation_id, None)
        if barrier is not None:
            barrier.complete.set()


@dataclass(slots=True)
class _Round:
    data: JsonObject = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class AllGather:
    """`num_peers` distinct callers each bring data and take everybody's. Rounds follow each other.

    A caller that lost its answer asks again with its uuid, and is answered from the round that it was in.
    """

    def __init__(self) -> None:
        self._rounds: dict[str, _Round] = {}
        self._last: dict[str, _Round] = {}

    async def gather(
        self, allocation_id: str, request_uuid: str, num_peers: int, data: Any
    ) -> list[Any]:
        if num_peers < 1:
            raise InvalidArgument(f"numPeers must be at least 1, but is {num_peers}")
        last = self._last.get(allocation_id)
        if last is not None and request_uuid in last.data:
            return list(last.data.values())
        round_ = self._rounds.setdefault(allocation_id, _Round())
        round_.data[request_uuid] = data
        if len(round_.data) >= num_peers:
            self._rounds.pop(allocation_id, None)
            self._last[allocation_id] = round_
            round_.complete.set()
        await round_.complete.wait()
        return list(round_.data.values())

    def drop(self, allocation_id: str) -> None:
        self._last.pop(allocation_id, None)
        round_ = self._rounds.pop(allocation_id, None)
        if round_ is not None:
            round_.complete.set()
