"""What the provisioner needs of others; `master.app` passes it in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from master.core.deadlines import Deadline
from master.core.scheduler.types import Running
from provisioner.types import PoolAvailability, PoolDemand

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDecision:
    """An entry of the journal, new or changed. Made by `provisioner.journal.records`."""

    document: dict[str, Any]
    subjects: tuple[str, ...] = ()
    """By what it can be found now, beside what was written before."""


class FleetStore(Protocol):
    """Durable memory of what we decided to launch and of what we launched. One call is one commit.

    Documents are JSON objects made by `provisioner.fleet.instances`. The store looks at one key only: an intent
    whose document says `"finished": true` need not be loaded again (if it is, it is dropped).
    """

    async def load(self) -> FleetDocuments: ...

    async def check_lease(self) -> None:
        """Raises LeaseLost if another master leads by now, StoreUnavailable if nobody can tell."""
        ...

    async def save(
        self,
        *,
        intents: Sequence[tuple[str, dict[str, Any]]] = (),
        instances: Sequence[tuple[str, str, bool, dict[str, Any]]] = (),
        memory: dict[str, Any] | None = None,
        lessons: Mapping[str, dict[str, Any] | None] = NOTHING,
        bakes: Mapping[str, dict[str, Any] | None] = NOTHING,
        decisions: Sequence[WrittenDecision] = (),
    ) -> None:
        """Upsert intents (id, document), instances (id, pool, gone, document), and what else is remembered.

        `lessons`: name -> document of each key of the capacity memory that changed; None: it is forgotten.
        `bakes`: the same by id. `decisions`: what the journal says of all this. All or nothing.
        """
        ...


class FleetDocuments(Protocol):
    """What `load` answers: everything not finished."""

    @property
    def intents(self) -> Sequence[tuple[str, dict[str, Any]]]: ...

    @property
    def instances(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """Instances that are not gone."""
        ...

    @property
    def memory(self) -> dict[str, Any] | None:
        """What is remembered as one document: money, and machines that were ended as lost."""
        ...

    @property
    def lessons(self) -> Sequence[dict[str, Any]]:
        """The capacity memory, a document for each key."""
        ...

    @property
    def bakes(self) -> Sequence[dict[str, Any]]: ...

    @property
    def decisions(self) -> Sequence[dict[str, Any]]:
        """Those of which the document says `"is_open": true`."""
        ...


class PilotHost(Protocol):
    """The pools whose agents run on pilots. Calls are synchronous and never block."""

    def connected(self, agent_ids: Collection[str]) -> int:
        """How many of these agents are connected."""
        ...

    def drain(self, agent_id: str) -> None:
        """Give it no more work. May be repeated, and come before it connects."""
        ...

    def disabled_nodes(self) -> frozenset[str]:
        """Nodes, by their site's names, where an operator disabled or drained an agent that is there."""
        ...

    def avoided_nodes(self, pool: str) -> frozenset[str]:
        """Names of nodes, and of agents, that everything that waits in that pool avoids."""
        ...


class NodeHost(Protocol):
    """The resource manager whose pools the provisioner feeds. Calls are synchronous and never block."""

    def demand(self) -> Sequence[PoolDemand]:
        """One consistent snapshot of all dynamic pools."""
        ...

    def cordon(self, agent_id: str) -> bool:
        """Give the node no more work. False, and nothing changed, if something is placed on it."""
        ...

    def uncordon(self, agent_id: str) -> None: ...

    def drain(self, agent_id: str) -> None:
        """Give the node no more work; what it runs may finish. May be repeated."""
        ...

    def running(self, pool: str) -> Sequence[Running]:
        """What holds slots or places in that pool at this instant."""
        ...

    def leave(self, agent_id: str, deadline: Deadline) -> None:
        """The machine goes: no more work is placed there, and what it runs is asked to leave until then.

        May be repeated, and come before its agent does.
        """
        ...

    async def instance_gone(self, agent_id: str, reason: str) -> None:
        """The machine is certainly gone: what ran on it is lost now, without waiting for a reconnect."""
        ...

    def availability(self, availability: PoolAvailability) -> None:
        """What will come and why gangs wait. Replaces the pool's previous availability; the pool decides again."""
        ...
