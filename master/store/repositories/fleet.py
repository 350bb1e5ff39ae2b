"""What the provisioner decided and launched, across restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from master.store.documents import FLEET_MEMORY
from master.store.store import Store
from master.store.tables import (
    FleetBake,
    FleetDecision,
    FleetDecisionSubject,
    FleetInstance,
    FleetIntent,
    FleetLesson,
    Meta,
)
from master.store.unit_of_work import UnitOfWork
from provisioner.ports import NOTHING, WrittenDecision
from windlass.base.formats.json_types import JsonObject

MEMORY_KEY = "fleet.capacity_memory"


@dataclass(frozen=True, slots=True)
class LoadedFleet:
    """Implements `provisioner.ports.FleetDocuments`."""

    intents: Sequence[tuple[str, JsonObject]]
    instances: Sequence[tuple[str, JsonObject]]
    memory: JsonObject | None
    lessons: Sequence[JsonObject]
    bakes: Sequence[JsonObject]
    decisions: Sequence[JsonObject]


def _nobody(documents: Sequence[JsonObject]) -> None:
    """Nobody asks."""


class FleetRepository:
    """Implements `provisioner.ports.FleetStore`."""

    def __init__(
        self, store: Store, note: Callable[[Sequence[JsonObject]], None] = _nobody
    ) -> None:
        """`note` is told each record of an instance once it is committed."""
        self._store = store
        self._note = note

    async def check_lease(self) -> None:
        await self._store.check_lease()

    async def load(self) -> LoadedFleet:
        intents = await self._store.read(
            select(FleetIntent).where(FleetIntent.finished.is_(False)).order_by(FleetIntent.id)
        )
        instances = await self._store.read(
            select(FleetInstance).where(FleetInstance.gone.is_(False)).order_by(FleetInstance.id)
        )
        lessons = await self._store.read(select(FleetLesson).order_by(FleetLesson.key))
        bakes = await self._store.read(select(FleetBake).order_by(FleetBake.id))
        decisions = await self._store.read(
            select(FleetDecision).where(FleetDecision.open.is_(True)).order_by(FleetDecision.id)
        )
        memory = await self._store.read_one(select(Meta).where(Meta.key == MEMORY_KEY))
        return LoadedFleet(
            intents=[(row.id, row.document) for row in intents],
            instances=[(row.id, row.document) for row in instances],
            memory=FLEET_MEMORY.read(memory.value) if memory else None,
            lessons=[row.document for row in lessons],
            bakes=[row.document for row in bakes],
            decisions=[row.document for row in decisions],
        )

    async def save(
        self,
        *,
        intents: Sequence[tuple[str, JsonObject]] = (),
        instances: Sequence[tuple[str, str, bool, JsonObject]] = (),
        memory: JsonObject | None = None,
        lessons: Mapping[str, JsonObject | None] = NOTHING,
        bakes: Mapping[str, JsonObject | None] = NOTHING,
        decisions: Sequence[WrittenDecision] = (),
    ) -> None:
        """One commit. An intent whose document says `"finished": true` is not loaded again."""
        unit = UnitOfWork()
        for intent_id, document in intents:
            finished = document.get("finished") is True
            unit.upsert(FleetIntent, {"id": intent_id, "document": document, "finished": finished})
        for instance_id, pool, gone, document in instances:
            row = {"id": instance_id, "pool": pool, "gone": gone, "document": document}
            unit.upsert(FleetInstance, row)
        if memory is not None:
            unit.upsert(Meta, {"key": MEMORY_KEY, "value": FLEET_MEMORY.write(memory)})
        for key, lesson in lessons.items():
            if lesson is None:
                unit.delete(FleetLesson, {"key": key})
            else:
                unit.upsert(FleetLesson, {"key": key, "document": lesson})
        for bake_id, bake in bakes.items():
            if bake is None:
                unit.delete(FleetBake, {"id": bake_id})
            else:
                unit.upsert(FleetBake, {"id": bake_id, "document": bake})
        for decision in decisions:
            _write_decision(unit, decision)
        await self._store.commit(unit)
        self._note([document for _, _, _, document in instances])


def _write_decision(unit: UnitOfWork, written: WrittenDecision) -> None:
    document = written.document
    row = {
        "id": document["id"],
        "pool": document["pool"],
        "kind": document["kind"],
        "first_at": document["first_at"],
        "last_at": document["last_at"],
        "open": document["is_open"],
        "document": document,
    }
    unit.upsert(FleetDecision, row)
    for subject in written.subjects:
        unit.upsert(FleetDecisionSubject, {"subject": subject, "decision_id": document["id"]})
