"""What the API and the job queue may see and do of pools and agents, whatever backend has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from master.core.actor import Actor
from master.core.reasons import ReasonKind
from master.core.scheduler.types import SchedulerSettings
from rm_backends.views import AgentKey, AgentView, JobInPool, PoolView, QueueEntry, SlotView


class Observer(Protocol):
    """Looks only. Nothing here blocks."""

    def pools(self) -> Sequence[str]: ...

    def pools_view(self) -> Sequence[PoolView]: ...

    def scheduler(self, pool: str) -> SchedulerSettings | None:
        """None where the order of the queue is decided by others. Raises NotFound, as the next two."""
        ...

    def jobs_in(self, pool: str) -> Sequence[JobInPool]:
        """Those that wait or hold slots, in no order, summed up. Far less work than `queue`."""
        ...

    def queue(self, pool: str, job_id: str | None = None) -> Sequence[QueueEntry]:
        """What waits and what holds slots, in the order of jobs; of one job, or of all."""
        ...

    def waiting_by_kind(self, pool: str) -> Mapping[ReasonKind, int]:
        """How many requests wait, by why: of tens of thousands, what `queue` says of each is far too much work."""
        ...

    def agents(self) -> Sequence[AgentView]:
        """By id."""
        ...

    def agent_keys(self) -> Sequence[AgentKey]:
        """Those of `agents`, by id."""
        ...

    def agent(self, agent_id: str) -> AgentView:
        """Raises NotFound."""
        ...


class AgentOperator(Protocol):
    """Takes agents and slots out of service and back into it. All raise NotFound."""

    async def enable_agent(self, agent_id: str, *, by: Actor) -> AgentView: ...

    async def disable_agent(self, agent_id: str, *, drain: bool, by: Actor) -> AgentView:
        """With `drain` what runs on it may finish, else it is stopped. It gets no new work either way."""
        ...

    async def enable_slot(self, agent_id: str, slot_id: int, *, by: Actor) -> SlotView:
        """It gets work again if its agent is enabled."""
        ...

    async def disable_slot(
        self, agent_id: str, slot_id: int, *, drain: bool, by: Actor
    ) -> SlotView:
        """With `drain` what holds it may finish, else it is stopped. It gets no new work either way."""
        ...

    async def forget_agent(self, agent_id: str, *, force: bool, by: Actor) -> AgentView:
        """Its work is lost, its id is free. Returns what it was. Raises Conflict while connected, unless `force`."""
        ...
