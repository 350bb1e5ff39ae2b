"""What of a fleet's state is written down, and how it comes back after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from provisioner.capacity import rows as capacity_rows
from provisioner.fleet.instances import (
    instance_document,
    instance_from_document,
    is_written_alike,
)
from provisioner.fleet.intents import intent_document, intent_from_document
from provisioner.fleet.state import FleetState
from provisioner.images.records import bake_document, bake_from_document
from provisioner.journal.records import (
    decision_document,
    decision_from_document,
    goes_on_alike,
)
from provisioner.money.prices import SpendLedger
from provisioner.ports import FleetDocuments, WrittenDecision
from windlass.base.formats.strict_json import StrictJson

_LESSONS_AT_FIRST = "offers"
_LEDGER: StrictJson[SpendLedger] = StrictJson(SpendLedger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsaved:
    """The difference between two states, as `FleetStore.save` takes it."""

    intents: tuple[tuple[str, dict[str, Any]], ...] = ()
    instances: tuple[tuple[str, str, bool, dict[str, Any]], ...] = ()
    memory: dict[str, Any] | None = None
    lessons: Mapping[str, dict[str, Any] | None] = field(default_factory=dict)
    bakes: Mapping[str, dict[str, Any] | None] = field(default_factory=dict)
    decisions: tuple[WrittenDecision, ...] = ()

    def __bool__(self) -> bool:
        rows = self.intents or self.instances or self.lessons or self.bakes or self.decisions
        return bool(rows or self.memory is not None)


def unsaved(old: FleetState, new: FleetState) -> Unsaved:
    intents = []
    for intent in new.intents.values():
        known = old.intents.get(intent.id)
        if known is not intent:
            document = intent_document(intent)
            if known is None or document != intent_document(known):
                intents.append((intent.id, document))
    instances = [
        (record.id, record.pool, record.told, instance_document(record))
        for record in new.instances.values()
        if (before := old.instances.get(record.id)) is not record
        and (before is None or not is_written_alike(before, record))
    ]
    remembered = (new.ledger, new.ended_lost) != (old.ledger, old.ended_lost)
    return Unsaved(
        intents=tuple(intents),
        instances=tuple(instances),
        memory=_memory(new) if remembered else None,
        lessons=capacity_rows.changed_rows(old.memory, new.memory),
        bakes=_changed_bakes(old, new),
        decisions=tuple(_changed_decisions(old, new)),
    )


def _changed_decisions(old: FleetState, new: FleetState) -> Iterator[WrittenDecision]:
    for decision in new.decisions.values():
        before = old.decisions.get(decision.id)
        if before is decision or (before is not None and goes_on_alike(before, decision)):
            continue
        known = frozenset(before.subjects()) if before else frozenset()
        subjects = tuple(each for each in decision.subjects() if each not in known)
        yield WrittenDecision(document=decision_document(decision), subjects=subjects)


def _changed_bakes(old: FleetState, new: FleetState) -> dict[str, dict[str, Any] | None]:
    """None: forgotten."""
    changed: dict[str, dict[str, Any] | None] = dict.fromkeys(old.bakes.keys() - new.bakes.keys())
    for bake in new.bakes.values():
        before = old.bakes.get(bake.id)
        if before is not bake:
            document = bake_document(bake)
            if before is None or document != bake_document(before):
                changed[bake.id] = document
    return changed


def to_move(documents: FleetDocuments, state: FleetState) -> Unsaved:
    """What a release wrote that kept all lessons in one document, as it is kept now. In one commit, at the start."""
    if _LESSONS_AT_FIRST not in (documents.memory or {}):
        return Unsaved()
    return Unsaved(memory=_memory(state), lessons=capacity_rows.to_rows(state.memory))


def _memory(state: FleetState) -> dict[str, Any]:
    return {"ledger": asdict(state.ledger), "ended_lost": list(state.ended_lost)}


def forget_finished(state: FleetState) -> FleetState:
    """The state without what needs nothing more. After the commit that says so."""
    return replace(
        state,
        intents={id_: intent for id_, intent in state.intents.items() if not intent.is_finished},
        instances={id_: record for id_, record in state.instances.items() if not record.told},
        decisions={id_: each for id_, each in state.decisions.items() if each.is_open},
    )


def restored(empty: FleetState, documents: FleetDocuments) -> FleetState:
    """The state after a restart: intents count as called, nothing has been seen yet."""
    intents = [intent_from_document(document) for _, document in documents.intents]
    instances = [instance_from_document(document) for _, document in documents.instances]
    bakes = [bake_from_document(document) for document in documents.bakes]
    decisions = [decision_from_document(document) for document in documents.decisions]
    memory = documents.memory or {}
    return replace(
        empty,
        intents={intent.id: intent for intent in intents if intent is not None},
        instances={record.id: record for record in instances},
        bakes={bake.id: bake for bake in bakes},
        decisions={decision.id: decision for decision in decisions},
        memory=capacity_rows.from_rows([*memory.get(_LESSONS_AT_FIRST, ()), *documents.lessons]),
        ledger=_LEDGER.load(memory.get("ledger", {}), "the ledger of costs"),
        ended_lost=tuple(memory.get("ended_lost", ())),
    )
