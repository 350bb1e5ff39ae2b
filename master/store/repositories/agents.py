"""What is remembered of agents, for `rm_backends`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import delete, select

from master.store.store import Store
from master.store.tables import Agent, JoinToken, JoinTokenUse
from master.store.unit_of_work import UnitOfWork
from rm_backends.ports import AgentRecord, JoinUse, SlotService


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
                credential_hash=row.credential_hash,
            )
            for row in rows
        ]

    async def save(self, record: AgentRecord, use: JoinUse | None = None) -> None:
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
                "credential_hash": record.credential_hash,
            },
        )
        if use is not None:
            unit.upsert(
                JoinTokenUse,
                {
                    "token_id": use.token_id,
                    "agent_id": use.agent_id,
                    "credential_hash": use.credential_hash,
                    "expires": use.expires,
                    "used_at": use.at,
                },
            )
        await self._store.commit(unit)

    async def remove(self, agent_id: str) -> None:
        unit = UnitOfWork()
        unit.delete(Agent, {"id": agent_id})
        await self._store.commit(unit)

    async def uses(self, token_id: str) -> Mapping[str, str]:
        rows = await self._store.read(select(JoinTokenUse).where(JoinTokenUse.token_id == token_id))
        return {row.agent_id: row.credential_hash for row in rows}

    async def forget_uses(self, expired_before: datetime) -> None:
        """Of tokens that nobody can use any more. Those of listed tokens go with their token."""
        unit = UnitOfWork()
        unit.execute(
            delete(JoinTokenUse)
            .where(JoinTokenUse.expires < expired_before)
            .where(JoinTokenUse.token_id.not_in(select(JoinToken.id)))
        )
        await self._store.commit(unit)
