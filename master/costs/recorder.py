"""Costs: what every machine cost is divided among the jobs that held its slots, and added to one table.

Nothing is noted while work runs. Lives of machines and placements are committed by those who own them; booking takes
both up to a moment that is certain, and commits the sums together with that moment. A crash at any line repeats
nothing and loses nothing. What is not booked yet is computed in the same way when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, func, insert, literal, select

from master.costs.lines import CostLine, condensed, lines_of
from master.costs.open_machines import OpenMachine, OpenMachines, Unbooked
from master.store.store import Store
from master.store.tables import Cost, Experiment, FleetInstance, Project, User, Workspace
from master.store.unit_of_work import UnitOfWork
from provisioner.money.budgets import UserSpending
from provisioner.money.lifetimes import CostKind, charges
from provisioner.money.months import month_of
from windlass.base.clock import Clock
from windlass.base.formats.json_types import JsonObject

MACHINES_AT_ONCE = 100
"""In one commit."""
IDS_AT_ONCE = 500
"""Of one query."""
FRESH_S = 5.0
"""What was computed for a reader so long ago serves the next one, too."""
DETAILED_MONTHS_S = 62 * 86400.0
"""Machines of months that ended before this are summed up."""
_MONTH = len("2026-11")
_COLUMNS = ("day", "pool", "instance_id", "job_id", "kind", "user_id", "experiment_id")


class CostRecorder:
    """One per master. `record` is for one loop; everything else may be called at any time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._machines = OpenMachines(store)
        self._unbooked = Unbooked(float("-inf"))
        self.spending = UserSpending()
        """As of the last `record`."""

    def note(self, documents: Sequence[JsonObject]) -> None:
        """These records of machines were committed. Whoever writes them tells."""
        self._machines.note(documents)

    async def record(self) -> None:
        """Take in what is certain by now, and learn what users have spent."""
        unbooked = await self._read()
        due = [m for m in unbooked.machines if m.due_until(unbooked.at) is not None]
        for first in range(0, len(due), MACHINES_AT_ONCE):
            await self._record(due[first : first + MACHINES_AT_ONCE], unbooked)
        await self._note_spending(await self._read() if due else unbooked)

    async def roll_up(self) -> None:
        """Sum up the machines of months long past: what grows then is months and jobs."""
        now = self._clock.now()
        month = month_of(now.timestamp() - DETAILED_MONTHS_S)
        mark = f"before {now.isoformat()}"
        old = (Cost.month < month) & Cost.instance_id.not_like("before %")
        keys = [func.substr(Cost.month, 1, _MONTH), Cost.pool, Cost.job_id, Cost.kind]
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
        self,
        month: str | None = None,
        experiment_id: int | None = None,
        *,
        keys: Sequence[str] | None = None,
    ) -> list[CostLine]:
        """Of one month, or of one experiment, or all; what is not booked yet included.

        `keys`: fields of lines that are told apart; None: all.
        """
        unbooked = await self._fresh()
        statement, row = _summed(keys)
        if month is not None:
            statement = statement.where(_in_month(month))
        if experiment_id is not None:
            statement = statement.where(Cost.experiment_id == experiment_id)
        booked = await self._store.read(statement, row)
        live: Sequence[CostLine] = await unbooked.lines()
        if month is not None:
            live = [line for line in live if line.month == month]
        if experiment_id is not None:
            live = [line for line in live if line.experiment_id == experiment_id]
        return [*booked, *(live if keys is None else condensed(live, keys))]

    async def projects(self, lines: Iterable[CostLine]) -> dict[int, str]:
        """Workspace and project of the experiments of these lines."""
        ids = sorted({line.experiment_id for line in lines if line.experiment_id is not None})
        named = (
            select(Experiment.id, Workspace.name, Project.name)
            .join(Project, Project.id == Experiment.project_id)
            .join(Workspace, Workspace.id == Project.workspace_id)
        )
        found: dict[int, str] = {}
        for first in range(0, len(ids), IDS_AT_ONCE):
            some = named.where(Experiment.id.in_(ids[first : first + IDS_AT_ONCE]))
            rows = await self._store.read(some, lambda id_, space, name: (id_, f"{space}/{name}"))
            found.update(rows)
        return found

    async def experiments_usd(self, experiment_ids: Sequence[int]) -> dict[int, float]:
        """What each of these cost so far; without those that cost nothing yet."""
        booked = (
            select(Cost.experiment_id, func.sum(Cost.usd))
            .where(Cost.experiment_id.in_(experiment_ids))
            .group_by(Cost.experiment_id)
        )
        found: dict[int, float] = {}
        for known, usd in await self._store.read(booked, lambda id_, usd: (id_ or 0, usd)):
            found[known] = usd
        for line in await (await self._fresh()).lines():
            id_ = line.experiment_id
            if id_ is not None and id_ in experiment_ids:
                found[id_] = found.get(id_, 0.0) + line.usd
        return found

    async def usd_per_hour(self, experiment_id: int) -> float:
        """What the experiment costs now."""
        lines = await (await self._fresh()).lines_of_an_hour()
        return sum(line.usd for line in lines if line.experiment_id == experiment_id)

    async def machines(self) -> Sequence[OpenMachine]:
        """Those that exist, and those that are gone and not wholly booked."""
        return (await self._fresh()).machines

    async def _fresh(self) -> Unbooked:
        if not 0 <= self._clock.now().timestamp() - self._unbooked.at < FRESH_S:
            await self._read()
        return self._unbooked

    async def _read(self) -> Unbooked:
        self._unbooked = await self._machines.now(self._clock.now().timestamp())
        return self._unbooked

    async def _record(self, machines: Sequence[OpenMachine], unbooked: Unbooked) -> None:
        unit = UnitOfWork()
        done: list[tuple[str, float, bool]] = []
        for machine in machines:
            until = machine.due_until(unbooked.at)
            if until is not None:
                _add_machine(unit, machine, until, unbooked)
                done.append((machine.life.instance_id, until, machine.record.told))
        try:
            await self._store.commit(unit)
        except BaseException:
            self._machines.forget()
            raise
        for instance_id, until, whole in done:
            self._machines.booked(instance_id, until, whole=whole)

    async def _note_spending(self, unbooked: Unbooked) -> None:
        month = month_of(unbooked.at)
        users = select(User.id, User.username)
        names = dict(await self._store.read(users, lambda id_, name: (id_, name)))
        booked = (
            select(Cost.user_id, func.sum(Cost.usd))
            .where(_in_month(month), Cost.user_id.is_not(None))
            .group_by(Cost.user_id)
        )
        spent: dict[str, float] = {}
        for user_id, usd in await self._store.read(booked, lambda id_, usd: (id_, usd)):
            _add(spent, names.get(user_id or 0), usd)
        for line in await unbooked.lines():
            if line.month == month and line.user_id is not None:
                _add(spent, names.get(line.user_id), line.usd)
        rates: dict[str, float] = {}
        for line in await unbooked.lines_of_an_hour():
            if line.user_id is not None:
                _add(rates, names.get(line.user_id), line.usd)
        self.spending = UserSpending(at=unbooked.at, month_usd=spent, usd_per_hour=rates)


def _add_machine(unit: UnitOfWork, machine: OpenMachine, until: float, unbooked: Unbooked) -> None:
    life = machine.life
    found = charges(life, machine.uses, since=machine.since, until=until)
    for line in lines_of(found, unbooked.owners):
        row = {_column(name): getattr(line, name) for name in _COLUMNS}
        row |= {"kind": line.kind.value, "usd": line.usd, "hours": line.hours}
        unit.add(Cost, row, "usd", "hours")
    where = {"id": life.instance_id, "booked_until": machine.booked_until}
    unit.update(FleetInstance, where, {"booked_until": until}, expect=1)
    if machine.record.told:
        unit.delete(FleetInstance, {"id": life.instance_id})


def _summed(keys: Sequence[str] | None) -> tuple[Select[*tuple[Any, ...]], Callable[..., CostLine]]:
    """The rows that are told apart, summed up by the database; and what makes lines of them."""
    names = _COLUMNS if keys is None else (*keys, "kind")
    columns = [getattr(Cost, _column(name)) for name in names]
    sums = [Cost.usd, Cost.hours] if keys is None else [func.sum(Cost.usd), func.sum(Cost.hours)]
    statement = select(*columns, *sums)

    def line(*values: Any) -> CostLine:
        *parts, usd, hours = values
        known = dict(zip(names, parts, strict=True))
        return CostLine(**{**known, "kind": CostKind(known["kind"]), "usd": usd, "hours": hours})

    return statement if keys is None else statement.group_by(*columns), line


def _column(name: str) -> str:
    """Of a field of lines."""
    return "month" if name == "day" else name


def _in_month(month: str) -> ColumnElement[bool]:
    days = [f"{month}-{day:02}" for day in range(1, 32)]
    return Cost.month.in_([month, *days])


def _add(sums: dict[str, float], name: str | None, usd: float) -> None:
    if name is not None:
        sums[name] = sums.get(name, 0.0) + usd
