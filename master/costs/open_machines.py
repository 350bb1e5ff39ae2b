"""Machines that are not wholly booked, and what ran on them: read once, then kept up with what has changed since.

Machines are told by the store's only writer of them (`note`). Runs are found by their ids: those that hold slots now,
and those that have ended lately. What the clock says of them is taken as far as `LATE_S` wrong; after a clock that was
set back everything is read anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from sqlalchemy import or_, select

from master.costs.lines import CostLine, JobOwner, lines_of
from master.store.store import Store
from master.store.tables import Allocation, FleetInstance, Task
from provisioner.fleet.instances import InstanceRecord, instance_from_document
from provisioner.money.lifetimes import Lifetime, Use, charges, merged, settled_until
from windlass.base.formats.json_types import JsonObject

MARGIN_S = 60.0
"""What is younger may still be committed by others: it is booked next time."""
LATE_S = 600.0
"""A run that ended so long ago is committed as such."""
BOOK_AFTER_S = 3600.0
"""A machine on which nothing ends is booked no more often."""
AT_ONCE = 500
"""Then others get a turn."""
INLINE = 500
"""With more machines than this, charges are computed in another thread."""


@dataclass(frozen=True, slots=True)
class OpenMachine:
    record: InstanceRecord
    life: Lifetime
    booked_until: float | None
    uses: tuple[Use, ...] = ()

    @property
    def since(self) -> float:
        return self.life.start if self.booked_until is None else self.booked_until

    def due_until(self, now: float) -> float | None:
        """Up to when it is to be booked now; None: not yet."""
        until = settled_until(self.record, now - MARGIN_S)
        if until is None or (until <= self.since and not self.record.told):
            return None
        ended = any(use.end is not None and self.since < use.end <= until for use in self.uses)
        late = until - self.since >= BOOK_AFTER_S
        return until if self.record.told or ended or late or self.booked_until is None else None


@dataclass(frozen=True, slots=True)
class BilledRun:
    """One allocation: when, whose, and on which agents."""

    id: str
    job_id: str
    owner: JobOwner
    end: float | None
    placed: tuple[tuple[str, Use], ...]


@dataclass(slots=True)
class Unbooked:
    """One moment of the machines."""

    at: float
    machines: Sequence[OpenMachine] = ()
    owners: Mapping[str, JobOwner] = field(default_factory=dict)
    _lines: list[CostLine] | None = None
    _hour: list[CostLine] | None = None

    async def lines(self) -> Sequence[CostLine]:
        """What is not booked up to now."""
        if self._lines is None:
            self._lines = await self._computed(self._compute)
        return self._lines

    async def lines_of_an_hour(self) -> Sequence[CostLine]:
        """What an hour costs from now on, if nothing changes."""
        if self._hour is None:
            self._hour = await self._computed(self._compute_hour)
        return self._hour

    async def _computed(self, compute: Any) -> list[CostLine]:
        found: list[CostLine]
        if len(self.machines) <= INLINE:
            found = compute()
        else:
            found = await asyncio.to_thread(compute)
        return found

    def _compute(self) -> list[CostLine]:
        at = self.at
        each = (
            charges(m.life, m.uses, since=m.since, until=max(at, m.since)) for m in self.machines
        )
        return lines_of(merged(each), self.owners)

    def _compute_hour(self) -> list[CostLine]:
        at = self.at
        each = (
            charges(m.life, m.uses, since=at, until=at + 3600.0)
            for m in self.machines
            if m.life.end is None
        )
        return lines_of(merged(each), self.owners)


class OpenMachines:
    """For one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._machines: dict[str, OpenMachine] = {}
        self._runs: dict[str, BilledRun] = {}
        self._uses: dict[str, dict[str, tuple[Use, ...]]] = {}
        """Agent -> run -> what it holds there."""
        self._noted: list[JsonObject] = []
        self._at = float("-inf")
        """When it was last brought up to date; -inf: nothing was read."""
        self._lock = asyncio.Lock()

    def note(self, documents: Sequence[JsonObject]) -> None:
        """These records of machines are committed."""
        self._noted += documents

    def forget(self) -> None:
        """Read everything anew: somebody else has written."""
        self._at = float("-inf")

    def booked(self, instance_id: str, until: float, *, whole: bool) -> None:
        """That is committed. `whole`: its row is gone."""
        known = self._machines[instance_id]
        if whole:
            del self._machines[instance_id]
        else:
            uses = tuple(u for u in known.uses if u.end is None or u.end > until)
            self._machines[instance_id] = replace(known, booked_until=until, uses=uses)

    async def now(self, at: float) -> Unbooked:
        async with self._lock:
            if at < self._at or self._at == float("-inf"):
                await self._read_all(at)
            else:
                await self._read_changes(at)
            self._at = at
            self._prune()
        owners = {run.job_id: run.owner for run in self._runs.values()}
        return Unbooked(at, tuple(self._machines.values()), owners)

    async def _read_all(self, at: float) -> None:
        self._noted = []
        rows = await self._store.read(
            select(FleetInstance.document, FleetInstance.booked_until), _machine
        )
        self._machines = {machine.life.instance_id: machine for machine in rows}
        self._runs, self._uses = {}, {}
        await self._take_in_noted()
        since = min((machine.since for machine in self._machines.values()), default=at)
        ended = Allocation.ended_at > datetime.fromtimestamp(min(since, at - LATE_S), UTC)
        await self._take_in(
            await self._store.read(
                RUNS.where(
                    Allocation.started_at.is_not(None), or_(Allocation.ended_at.is_(None), ended)
                ),
                run_of,
            )
        )

    async def _read_changes(self, at: float) -> None:
        await self._take_in_noted()
        ids = select(Allocation.id).where(Allocation.started_at.is_not(None))
        held = set(await self._store.read(ids.where(Allocation.ended_at.is_(None))))
        lately = datetime.fromtimestamp(self._at - LATE_S, UTC)
        ended = await self._store.read(ids.where(Allocation.ended_at > lately))
        were_held = {run.id for run in self._runs.values() if run.end is None}
        unknown = [id_ for id_ in (*held, *ended) if id_ not in self._runs]
        changed = [*unknown, *(were_held - held)]
        for first in range(0, len(changed), AT_ONCE):
            some = changed[first : first + AT_ONCE]
            found = await self._store.read(RUNS.where(Allocation.id.in_(some)), run_of)
            await self._take_in(found)
            for id_ in {*some} - {run.id for run in found}:
                self._drop(id_)

    async def _take_in_noted(self) -> None:
        while self._noted:
            some, self._noted = self._noted[:AT_ONCE], self._noted[AT_ONCE:]
            for document in some:
                record = instance_from_document(document)
                known = self._machines.get(record.id)
                booked = None if known is None else known.booked_until
                uses = self._uses_of(record.id)
                machine = OpenMachine(record, Lifetime.of(record), booked, uses)
                self._machines[record.id] = machine
            await asyncio.sleep(0)

    async def _take_in(self, runs: Sequence[BilledRun]) -> None:
        for first in range(0, len(runs), AT_ONCE):
            touched = set[str]()
            for run in runs[first : first + AT_ONCE]:
                self._runs[run.id] = run
                by_agent: dict[str, list[Use]] = {}
                for agent_id, use in run.placed:
                    by_agent.setdefault(agent_id, []).append(use)
                for agent_id, uses in by_agent.items():
                    self._uses.setdefault(agent_id, {})[run.id] = tuple(uses)
                touched |= by_agent.keys()
            self._renew(touched)
            await asyncio.sleep(0)

    def _drop(self, run_id: str) -> None:
        run = self._runs.pop(run_id, None)
        agents = {agent_id for agent_id, _ in run.placed} if run is not None else set()
        for agent_id in agents:
            self._uses.get(agent_id, {}).pop(run_id, None)
        self._renew(agents)

    def _renew(self, agents: Iterable[str]) -> None:
        for agent_id in agents:
            if (machine := self._machines.get(agent_id)) is not None:
                self._machines[agent_id] = replace(machine, uses=self._uses_of(agent_id))

    def _uses_of(self, agent_id: str) -> tuple[Use, ...]:
        return tuple(chain.from_iterable(self._uses.get(agent_id, {}).values()))

    def _prune(self) -> None:
        """Forget runs that have ended, are booked, and are not looked for any more."""
        for run in list(self._runs.values()):
            if run.end is not None and run.end < self._at - 2 * LATE_S and not self._matters(run):
                self._drop(run.id)

    def _matters(self, run: BilledRun) -> bool:
        machines: Iterator[OpenMachine | None] = (self._machines.get(a) for a, _ in run.placed)
        return any(m is not None and (run.end is None or run.end > m.since) for m in machines)


RUNS = select(
    Allocation.id,
    Allocation.started_at,
    Allocation.ended_at,
    Allocation.document,
    Task.job_id,
    Task.owner_id,
    Task.experiment_id,
).join(Task, Task.id == Allocation.task_id)


def _machine(document: Any, booked_until: float | None) -> OpenMachine:
    record = instance_from_document(document)
    return OpenMachine(record, Lifetime.of(record), booked_until)


def run_of(
    id_: str,
    started_at: datetime | None,
    ended_at: datetime | None,
    document: JsonObject,
    job_id: str,
    owner_id: int,
    experiment_id: int | None,
) -> BilledRun:
    start = 0.0 if started_at is None else started_at.timestamp()
    end = None if ended_at is None else ended_at.timestamp()
    placed = tuple(
        (
            str(state["container"]["agent_id"]),
            Use(job_id=job_id, slots=len(state["container"]["slot_ids"]), start=start, end=end),
        )
        for state in document["containers"]
    )
    return BilledRun(id_, job_id, JobOwner(owner_id, experiment_id), end, placed)
