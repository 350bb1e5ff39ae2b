"""What dispatching needs of others; `master.app` passes it in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from provisioner.types import PoolAvailability
from rm_backends.base import AllocationRequest, LossKind
from rm_backends.batch.leases import Lease


class LeaseStore(Protocol):
    """Durable memory of what we submitted. One call is one commit."""

    async def load(self) -> Sequence[Lease]:
        """Those that are not settled."""
        ...

    async def save(self, leases: Sequence[Lease]) -> None: ...


class LeaseHost(Protocol):
    """The pools whose agents run on jobs. Synchronous calls never block."""

    def wanting(self, pool: str) -> Sequence[AllocationRequest]:
        """Who waits for a job, in the order of the queue."""
        ...

    def waits_or_holds(self, pool: str, allocation_id: str) -> bool: ...

    def holds(self, pool: str, allocation_id: str) -> bool:
        """It was granted its agents."""
        ...

    def connected(self, agent_ids: Collection[str]) -> int:
        """How many of these agents are connected."""
        ...

    def slots(self, agent_ids: Collection[str]) -> Mapping[str, int]:
        """Of those that are connected: the name of the node -> how many slots it offers."""
        ...

    def dismiss(self, agent_ids: Collection[str], reason: str) -> bool:
        """Tell these agents to end. False: not all of them are connected."""
        ...

    def occupied(self, agent_ids: Collection[str]) -> bool:
        """Something runs on these agents, as far as anybody has told."""
        ...

    def refuse(self, pool: str, allocation_id: str, reason: str) -> None:
        """The site will never run it: unless another pool may take it, it fails. May be repeated."""
        ...

    def lose(self, agent_ids: Collection[str], reason: str, kind: LossKind) -> bool:
        """The job of these agents is certainly over: what ran on them is lost.

        True: all of that is committed, and they hold nothing any more. Else ask again.
        """
        ...

    async def job_gone(self, agent_id: str, reason: str) -> None:
        """Forget the agent: it holds nothing."""
        ...

    def availability(self, availability: PoolAvailability) -> None: ...
