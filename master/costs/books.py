"""The books: what every machine cost is divided among the jobs that held its slots, and added to one table.

Nothing is noted while work runs. Lives of machines and placements are committed by those who own them; booking reads
both up to a moment that is certain, and commits the sums together with that moment. A crash at any line repeats
nothing and loses nothing. What is not booked yet is computed in the same way when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, insert, literal, or_, select

from master.store.store import Store
from master.store.tables import Allocation, Cost, FleetInstance, Task, User
from master.store.unit_of_work import UnitOfWork
from provisioner.budgets import UserSpending
from provisioner.fleet import InstanceRecord, instance_from_document
from provisioner.lifetimes import (
    ChargeKey,
    Charges,
    CostKind,
    Lifetime,
    Use,
    charges,
    merged,
    settled_until,
)
from provisioner.months import month_of
from windlass.base.clock import Clock

MARGIN_S = 60.0
"""What is younger may still be committed by others: it is booked next time."""
MACHINES_AT_ONCE = 200
"""In one commit."""
FRESH_S = 5.0
"""What was computed for a reader so long ago serves the next one, too."""
DETAILED_MONTHS_S = 62 * 86400.0
"""Machines of months that ended before this are summed up."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a job is."""

    user_id: int
    experiment_id: int | None


NOBODYS = Owner(user_id=0, experiment_id=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One line of the books, or of what is not in them yet."""

    month: str
    pool: str
    instance_id: str
    job_id: str
    kind: CostKind
    user_id: int | None
    experiment_id: int | None
    usd: float
    hours: float


@dataclass(slots=True)
class _Machine:
    record: InstanceRecord
    life: Lifetime
    booked_until: float | None
    uses: list[Use] = field(default_factory=list)

    @property
    def since(self) -> float:
        return self.life.start if self.booked_until is None else self.booked_until

    def certain_until(self, now: float) -> float | None:
        """Up to when it can be booked now; None: there is nothing to book."""
        until = settled_until(self.record, now - MARGIN_S)
        if until is None or (until <= self.since and not self.record.told):
            return None
        return until


@dataclass(slots=True)
class _Open:
    """Machines that are not wholly booked, with what ran on them."""

    at: float
    machines: Sequence[_Machine] = ()
    owners: dict[str, Owner] = field(default_factory=dict)

    def charges(self) -> Charges:
        """What is not booked up to now."""
        return merged(
            charges(m.life, m.uses, since=m.since, until=max(self.at, m.since))
            for m in self.machines
        )

    def charges_of_an_hour(self) -> Charges:
        """What an hour costs from now on, if nothing changes."""
        return merged(
            charges(m.life, m.uses, since=self.at, until=self.at + 3600.0)
            for m in self.machines
            if m.life.end is None
        )


class Books:
    """One per master. `book` is for one loop; everything else may be called at any time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._open = _Open(float("-inf"))
        self.spending = UserSpending()
        """As of the last `book`."""

    async def book(self) -> None:
        """Take in what is certain by now, and learn what users have spent."""
        open_ = await self._read_open()
        due = [m for m in open_.machines if m.certain_until(open_.at) is not None]
        for first in range(0, len(due), MACHINES_AT_ONCE):
            unit = UnitOfWork()
            for machine in due[first : first + MACHINES_AT_ONCE]:
                self._book(unit, machine, open_)
            await self._store.commit(unit)
        await self._note_spending(await self._read_open() if due else open_)

    async def roll_up(self) -> None:
        """Sum up the machines of months long past: what grows then is months and jobs."""
        now = self._clock.now()
        month = month_of(now.timestamp() - DETAILED_MONTHS_S)
        mark = f"before {now.isoformat()}"
        old = (Cost.month < month) & Cost.instance_id.not_like("before %")
        keys = [Cost.month, Cost.pool, Cost.job_id, Cost.kind]
        kept = [func.max(Cost.user_id), func.max(Cost.experiment_id)]
        sums = [func.sum(Cost.usd), func.sum(Cost.hours)]
        columns = ["month", "pool", "job_id", "kind", "user_id", "experiment_id", "usd", "hours"]
        summed = select(*keys, *kept, *sums, literal(mark)).where(old).group_by(*keys)
        table: Any = Cost
        unit = UnitOfWork()
        unit.execute(insert(table).from_select([*columns, "instance_id"], summed))
        unit.execute(table.__table__.delete().where(old))
        await self._store.commit(unit)

    async def lines(
        self, month: str | None = None, experiment_id: int | None = None
    ) -> list[CostLine]:
        """Of one month, or of one experiment, or all; what is not booked yet included."""
        statement = select(Cost)
        if month is not None:
            statement = statement.where(Cost.month == month)
        if experiment_id is not None:
            statement = statement.where(Cost.experiment_id == experiment_id)
        open_ = await self._fresh()
        booked = [_line(row) for row in await self._store.read(statement)]
        live = [
            _live_line(key, amount.usd, amount.hours, open_.owners)
            for key, amount in open_.charges().items()
            if month in (None, key.month)
        ]
        return booked + [x for x in live if experiment_id in (None, x.experiment_id)]

    async def usd_per_hour(self, experiment_id: int) -> float:
        """What the experiment costs now."""
        open_ = await self._fresh()
        return sum(
            amount.usd
            for key, amount in open_.charges_of_an_hour().items()
            if open_.owners.get(key.job_id, NOBODYS).experiment_id == experiment_id
        )

    async def _fresh(self) -> _Open:
        if not 0 <= self._clock.now().timestamp() - self._open.at < FRESH_S:
            await self._read_open()
        return self._open

    async def _read_open(self) -> _Open:
        now = self._clock.now().timestamp()
        machines = await self._store.read(
            select(FleetInstance.document, FleetInstance.booked_until), _machine
        )
        opened = _Open(now, machines)
        if machines:
            await self._read_uses(opened, min(machine.since for machine in machines))
        self._open = opened
        return opened

    async def _read_uses(self, opened: _Open, since: float) -> None:
        statement = (
            select(Allocation, Task.job_id, Task.owner_id, Task.experiment_id)
            .join(Task, Task.id == Allocation.task_id)
            .where(
                Allocation.started_at.is_not(None),
                or_(
                    Allocation.ended_at.is_(None),
                    Allocation.ended_at > datetime.fromtimestamp(since, UTC),
                ),
            )
        )
        by_id = {machine.life.instance_id: machine for machine in opened.machines}
        for job_id, owner, placed in await self._store.read(statement, _uses):
            opened.owners[job_id] = owner
            for agent_id, use in placed:
                if agent_id in by_id:
                    by_id[agent_id].uses.append(use)

    def _book(self, unit: UnitOfWork, machine: _Machine, open_: _Open) -> None:
        life, until = machine.life, machine.certain_until(open_.at)
        if until is None:
            return
        for key, amount in charges(life, machine.uses, since=machine.since, until=until).items():
            line = _live_line(key, amount.usd, amount.hours, open_.owners)
            row = {
                "month": line.month,
                "pool": line.pool,
                "instance_id": line.instance_id,
                "job_id": line.job_id,
                "kind": line.kind.value,
                "user_id": line.user_id,
                "experiment_id": line.experiment_id,
                "usd": line.usd,
                "hours": line.hours,
            }
            unit.add(Cost, row, "usd", "hours")
        where = {"id": life.instance_id, "booked_until": machine.booked_until}
        unit.update(FleetInstance, where, {"booked_until": until}, expect=1)
        if machine.record.told:
            unit.delete(FleetInstance, {"id": life.instance_id})

    async def _note_spending(self, open_: _Open) -> None:
        month = month_of(open_.at)
        users = select(User.id, User.username)
        names = dict(await self._store.read(users, lambda id_, name: (id_, name)))
        booked = (
            select(Cost.user_id, func.sum(Cost.usd))
            .where(Cost.month == month, Cost.user_id.is_not(None))
            .group_by(Cost.user_id)
        )
        spent: dict[str, float] = {}
        for user_id, usd in await self._store.read(booked, lambda id_, usd: (id_, usd)):
            _add(spent, names.get(user_id or 0), usd)
        for key, amount in open_.charges().items():
            if key.month == month and key.job_id in open_.owners:
                _add(spent, names.get(open_.owners[key.job_id].user_id), amount.usd)
        rates: dict[str, float] = {}
        for key, amount in open_.charges_of_an_hour().items():
            if key.job_id in open_.owners:
                _add(rates, names.get(open_.owners[key.job_id].user_id), amount.usd)
        self.spending = UserSpending(at=open_.at, month_usd=spent, usd_per_hour=rates)


def _add(sums: dict[str, float], name: str | None, usd: float) -> None:
    if name is not None:
        sums[name] = sums.get(name, 0.0) + usd


def _machine(document: Any, booked_until: float | None) -> _Machine:
    record = instance_from_document(document)
    return _Machine(record, Lifetime.of(record), booked_until)


def _uses(
    allocation: Any, job_id: str, owner_id: int, experiment_id: int | None
) -> tuple[str, Owner, Iterable[tuple[str, Use]]]:
    ended = allocation.ended_at
    start, end = allocation.started_at.timestamp(), None if ended is None else ended.timestamp()
    placed = [
        (
            str(state["container"]["agent_id"]),
            Use(job_id=job_id, slots=len(state["container"]["slot_ids"]), start=start, end=end),
        )
        for state in allocation.document["containers"]
    ]
    return job_id, Owner(owner_id, experiment_id), placed


def _line(row: Cost) -> CostLine:
    return CostLine(**{**row.model_dump(), "kind": CostKind(row.kind)})


def _live_line(key: ChargeKey, usd: float, hours: float, owners: Mapping[str, Owner]) -> CostLine:
    owner = owners.get(key.job_id)
    return CostLine(
        month=key.month,
        pool=key.pool,
        instance_id=key.instance_id,
        job_id=key.job_id,
        kind=key.kind,
        user_id=None if owner is None else owner.user_id,
        experiment_id=None if owner is None else owner.experiment_id,
        usd=usd,
        hours=hours,
    )
