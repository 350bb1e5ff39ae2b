"""Batch jobs that were submitted, across restarts."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter
from sqlalchemy import select

from master.store.store import Store
from master.store.tables import BatchLease
from master.store.unit_of_work import UnitOfWork
from rm_backends.batch.leases import Lease, LeaseState
from windlass.base.formats.json_types import JsonObject

_LEASE = TypeAdapter(Lease)


def lease_document(lease: Lease) -> JsonObject:
    return dict(_LEASE.dump_python(lease, mode="json"))


def lease_from_document(document: JsonObject) -> Lease:
    return _LEASE.validate_python(document)


class LeaseRepository:
    """Implements `rm_backends.batch.ports.LeaseStore`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self) -> Sequence[Lease]:
        rows = await self._store.read(
            select(BatchLease).where(BatchLease.over.is_(False)).order_by(BatchLease.id)
        )
        return tuple(lease_from_document(row.document) for row in rows)

    async def save(self, leases: Sequence[Lease]) -> None:
        unit = UnitOfWork()
        for lease in leases:
            row = {
                "id": lease.tag,
                "allocation_id": lease.allocation_id,
                "over": lease.state is LeaseState.SETTLED,
                "document": lease_document(lease),
            }
            unit.upsert(BatchLease, row)
        await self._store.commit(unit)
