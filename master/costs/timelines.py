"""Lives of machines for people to look at: what each did when, and what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import or_

from master.costs.open_machines import RUNS, OpenMachine, run_of
from master.store.store import Store
from master.store.tables import Allocation
from provisioner.money.lifetimes import Use
from provisioner.money.spans import Span, spans


@dataclass(frozen=True, slots=True)
class MachineTimeline:
    machine: OpenMachine
    spans: tuple[Span, ...]
    usd: float
    """Of its whole life so far, whatever part of it is shown."""


async def timelines(
    store: Store, machines: Sequence[OpenMachine], *, since: float, now: float
) -> list[MachineTimeline]:
    """As far as they existed between `since` and `now`."""
    if not machines:
        return []
    uses = await _uses(store, max(since, min(one.life.start for one in machines)))
    return await asyncio.to_thread(_timelines, machines, uses, since=since, now=now)


def _timelines(
    machines: Sequence[OpenMachine],
    uses: Mapping[str, Sequence[Use]],
    *,
    since: float,
    now: float,
) -> list[MachineTimeline]:
    found: list[MachineTimeline] = []
    for machine in machines:
        id_ = machine.life.instance_id
        parts = spans(machine.record, uses.get(id_, ()), since=since, until=now)
        if parts:
            usd = machine.life.usd(machine.life.start, now)
            found.append(MachineTimeline(machine, tuple(parts), usd))
    return found


async def _uses(store: Store, since: float) -> dict[str, list[Use]]:
    """By agent, whose id is the machine's."""
    ended = Allocation.ended_at > datetime.fromtimestamp(since, UTC)
    held = RUNS.where(Allocation.started_at.is_not(None), or_(Allocation.ended_at.is_(None), ended))
    found: dict[str, list[Use]] = {}
    for run in await store.read(held, run_of):
        for agent_id, use in run.placed:
            found.setdefault(agent_id, []).append(use)
    return found
