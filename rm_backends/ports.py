"""What resource managers need of others, declared here and passed in by `master.app`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from agent_bootstrap.protocol import LogBatch


class SlotService(StrEnum):
    """What an operator did with one slot of an agent that is itself in service."""

    DISABLED = "disabled"
    """Out of service at once: what ran on it was stopped."""
    DRAINING = "draining"
    """No new work; what runs on it may finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """What is remembered of an agent between connections."""

    agent_id: str
    pool: str
    slots: int
    first_seen: datetime
    enabled: bool = True
    draining: bool = False
    slot_service: Mapping[int, SlotService] = field(default_factory=dict)
    """Slot number -> how it was taken out of service; slots in service are not in it."""
    instance_id: str | None = None


class AgentStore(Protocol):
    """Persistence of agents. Saved before an agent is told it is welcome."""

    async def load(self) -> Sequence[AgentRecord]: ...

    async def save(self, record: AgentRecord) -> None: ...

    async def remove(self, agent_id: str) -> None: ...


class LogSink(Protocol):
    """Where task logs shipped by agents go. Returns after they are stored."""

    async def ingest(self, batch: LogBatch) -> int:
        """Store what is new of the batch (offsets below the last stored one are dropped); the next offset wanted."""
        ...


class JoinTokens(Protocol):
    """Who may connect as an agent."""

    def verify(self, pool: str, token: str) -> bool: ...
