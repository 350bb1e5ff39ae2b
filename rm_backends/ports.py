"""What resource managers need of others, declared here and passed in by `master.app`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from agent_bootstrap.protocol import LogBatch, RegistryCredentials


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
    credential_hash: str | None = None
    """Of the credential that it must show. None: it has shown none so far (agents before 0.2)."""


class JoinKind(StrEnum):
    """What a join token was made for."""

    POOL = "pool"
    LAUNCH = "launch"
    JOB = "job"
    """A batch job whose nodes run our agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGrant:
    """What a join token allows."""

    pool: str
    kind: JoinKind = JoinKind.POOL
    id: str = ""
    """Of the launch, the batch job, or the operator's call that it was made for: each agent joins with it once, with
    one credential. Empty: the token of a pool, which is never spent."""
    names: frozenset[str] = frozenset()
    """The agents that it may be. Those of a launch or job are called as their instances. Empty: any new one."""
    agents: int | None = None
    """How many agents may join with it. None: any number."""
    expires: datetime | None = None
    revoked: datetime | None = None
    """Since when an administrator does not want it to be used any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinUse:
    """A join token that one agent has spent."""

    token_id: str
    agent_id: str
    credential_hash: str
    expires: datetime | None
    """Of the token: the use may be forgotten then."""
    at: datetime


class AgentStore(Protocol):
    """Persistence of agents. Saved before an agent is told it is welcome."""

    async def load(self) -> Sequence[AgentRecord]: ...

    async def save(self, record: AgentRecord, use: JoinUse | None = None) -> None:
        """Both or neither."""
        ...

    async def uses(self, token_id: str) -> Mapping[str, str]:
        """Who has spent a join token: agent id -> hash of its credential."""
        ...

    async def remove(self, agent_id: str) -> None: ...


class LogSink(Protocol):
    """Where task logs shipped by agents go. Returns after they are stored."""

    async def ingest(self, batch: LogBatch) -> int:
        """Store what is new of the batch (offsets below the last stored one are dropped); the next offset wanted."""
        ...


class RegistryLogins(Protocol):
    """What tasks pull their images with."""

    def registry_login(self, allocation_id: str) -> RegistryCredentials | None:
        """As master.yaml and the task's configuration have it now; None if there is none, or the task is over."""
        ...


class LaunchedMachines(Protocol):
    """What providers made."""

    def is_instance(self, name: str) -> bool:
        """Whether a machine of ours is called so, whatever its state."""
        ...

    def is_stopped(self, name: str) -> bool:
        """That machine of ours is stopped, or on the way there or back: its agent is away, and comes again."""
        ...

    def launched_by(self, launch_id: str) -> frozenset[str] | None:
        """The machines of one launch; None: its provider has not said yet which it made."""
        ...


class NoMachines:
    """There is no provider."""

    def is_instance(self, name: str) -> bool:
        return False

    def is_stopped(self, name: str) -> bool:
        return False

    def launched_by(self, launch_id: str) -> frozenset[str] | None:
        return frozenset()


class JoinTokens(Protocol):
    """Who may connect as an agent."""

    def find(self, pools: Collection[str], token: str) -> JoinGrant | None:
        """What the token allows, expired and revoked or not; None if it is not one of ours for one of `pools`."""
        ...
