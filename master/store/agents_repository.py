"""What is remembered of agents, for `rm_backends`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from master.store.store import Store
from master.store.tables import Agent
from master.store.unit_of_work import UnitOfWork
from rm_backends.ports import AgentRecord, SlotService


class AgentsRepository:
    """Implements `rm_backends.ports.AgentStore`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self) -> Sequence[AgentRecord]:
        rows = await self._store.read(select(Agent).order_by(Agent.id))
        return [
            AgentRecord(
                agent_id=row.id,
                pool=row.pool,
                slots=row.slots,
                first_seen=row.first_seen,
                enabled=row.enabled,
                draining=row.draining,
                slot_service={int(n): SlotService(s) for n, s in row.slot_service.items()},
                instance_id=row.instance_id,
            )
            for row in rows
        ]

    async def save(self, record: AgentRecord) -> None:
        unit = UnitOfWork()
        unit.upsert(
            Agent,
            {
                "id": record.agent_id,
                "pool": record.pool,
                "slots": record.slots,
                "first_seen": record.first_seen,
                "enabled": record.enabled,
                "draining": record.draining,
                "slot_service": {str(n): str(s) for n, s in record.slot_service.items()},
                "instance_id": record.instance_id,
            },
        )
        await self._store.commit(unit)

    async def remove(self, agent_id: str) -> None:
        unit = UnitOfWork()
        unit.delete(Agent, {"id": agent_id})
        await self._store.commit(unit)
