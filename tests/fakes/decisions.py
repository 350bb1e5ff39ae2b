"""Entries of the planner's journal, in a store."""

from __future__ import annotations

from typing import Any

from master.store.repositories.fleet import FleetRepository
from master.store.store import Store
from provisioner.journal.records import Decision, DecisionKind, decision_document
from provisioner.ports import WrittenDecision


def a_decision(id_: str, *, at: float = 0.0, **more: Any) -> Decision:
    values: dict[str, Any] = {
        "pool": "default",
        "kind": DecisionKind.REFUSED,
        "key": "",
        "reason": "no capacity",
        "first_at": at,
        "last_at": at,
        "written_at": at,
    }
    return Decision(id=id_, **{**values, **more})


async def write(store: Store, *decisions: Decision) -> None:
    written = [
        WrittenDecision(document=decision_document(each), subjects=tuple(each.subjects()))
        for each in decisions
    ]
    await FleetRepository(store).save(decisions=written)
