"""The state of the cluster: what is committed here has happened.

store = await Store.open(url, clock=clock)
epoch = await store.take_lease(master_id)
async with asyncio.TaskGroup() as group:
    group.create_task(store.run())
    await store.commit(unit)          # durable when it returns; another master's lease ends run() instead
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Lock
from typing import Any, TypeVar, TypeVarTuple, overload

import structlog
from sqlalchemy import Connection, Integer, Select, func, literal, select
from sqlmodel import SQLModel

from master.store import lease, unit_of_work
from master.store.change_feed import ChangeFeed
from master.store.lease import LeaderCandidate
from master.store.migrate import STATE, upgrade
from master.store.sql.apply import Written, apply_units
from master.store.sql.database import Database, open_database
from master.store.sql.faults import as_windlass_error
from master.store.sql.rows import fetch
from master.store.sql.statements import count_rows, table_of
from master.store.sql.writer import Lane, Writer
from master.store.touches import Touch
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import LeaseLost, WindlassError

log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

UNIT_ROWS = 2_000
"""Rows of state in one transaction: some ten milliseconds."""
MAX_WAITING_ROWS = 200_000


class Store:
    def __init__(self, database: Database, *, clock: Clock, inline: bool = False) -> None:
        """Use `open`."""
        self.is_inline = inline
        """In a simulation: no other process has this database."""
        self._database = database
        self._clock = clock
        self._epoch = 0
        self._last_ids: dict[str, int] = {}
        self._ids_lock = Lock()
        self.changes = ChangeFeed()
        """What is committed, for live views that tell rows."""
        self.touched: list[Callable[[Collection[Touch]], None]] = []
        """Called on the event loop with what a commit concerns, right after it; must not block."""
        self._units: Lane[UnitOfWork, Written] = Lane(
            apply_units,
            weigh=count_rows,
            batch_weight=UNIT_ROWS,
            max_waiting=MAX_WAITING_ROWS,
            committed=self._tell,
        )
        self._writer = Writer(database, (self._units,), guard=self._check_lease)

    @classmethod
    async def open(cls, url: str, *, clock: Clock, inline: bool = False) -> Store:
        """Connect and bring the tables up to date. `inline`: see `open_database`."""
        store = cls(open_database(url, inline=inline), clock=clock, inline=inline)
        try:
            await store._write(lambda connection: upgrade(connection, STATE))
            await store._load_last_ids()
        except BaseException:
            await store.close()
            raise
        return store

    def _tell(self, _: UnitOfWork, written: Written) -> None:
        self.changes.publish(written.changes)
        if written.touches:
            for listener in self.touched:
                listener(written.touches)

    @property
    def epoch(self) -> int:
        """Of the lease this master took; 0 before."""
        return self._epoch

    @property
    def dialect(self) -> str:
        """Of SQL: sqlite or postgresql."""
        return self._database.dialect

    async def take_lease(self, who: LeaderCandidate | str) -> int:
        """Lead from now on. Raises LeaseHeld while another master leads, LeaseLost if one begins at this moment."""
        candidate = LeaderCandidate(master_id=who) if isinstance(who, str) else who
        now = self._clock.now()
        self._epoch = await self._write(lambda c: lease.take_lease(c, candidate, now))
        await self._load_last_ids()
        return self._epoch

    async def renew_lease(self) -> None:
        """Raises LeaseLost. What else is wrong is logged: the lease may expire, and who takes it is seen later."""
        if self.is_damaged:
            return
        try:
            await self._write(lambda c: lease.renew_lease(c, self._epoch, self._clock.now()))
        except LeaseLost:
            raise
        except WindlassError as error:
            log.warning("the lease was not renewed", error=error.message)

    async def check_lease(self) -> None:
        """For what is about to act on a commit: raises LeaseLost if another master leads by now; StoreUnavailable."""
        self._require_lease()
        try:
            await self._database.read(lambda c: lease.check_lease(c, self._epoch, keep=False))
        except Exception as error:
            raise as_windlass_error(error) from error

    async def give_back_lease(self) -> None:
        """After `run` has ended: the next master need not wonder whether this one still leads. Never raises."""
        try:
            await self._write(lambda c: lease.give_back_lease(c, self._epoch))
        except WindlassError as error:
            log.warning("the lease was not given back", error=error.message)

    async def commit(self, unit: UnitOfWork) -> None:
        """All of it or nothing, durable when this returns.

        Raises Conflict (a constraint, or an Update that matched other than `expect` rows), StoreUnavailable
        (nothing was changed), LeaseLost (stop: another master leads).
        """
        if unit:
            self._require_lease()
            await self._writer.submit(self._units, unit)

    def next_id(self, table: unit_of_work.Table) -> int:
        """A fresh value for the table's integer `id`, in any thread. Only the leader may ask; gaps are normal."""
        name = table_of(table).name
        with self._ids_lock:
            self._last_ids[name] += 1
            return self._last_ids[name]

    @overload
    async def read(self, statement: Select[T], /) -> list[T]: ...
    @overload
    async def read(self, statement: Select[*Ts], row: Callable[[*Ts], R], /) -> list[R]: ...
    async def read(self, statement: Any, row: Any = None, /) -> list[Any]:
        """What a SELECT finds, as `fetch` says it, at one point in time and with every commit that has returned."""
        try:
            return await self._database.read(lambda connection: fetch(connection, statement, row))
        except Exception as error:
            raise as_windlass_error(error) from error

    @overload
    async def read_one(self, statement: Select[T], /) -> T | None: ...
    @overload
    async def read_one(self, statement: Select[*Ts], row: Callable[[*Ts], R], /) -> R | None: ...
    async def read_one(self, statement: Any, row: Any = None, /) -> Any:
        """The only row of a SELECT, or None."""
        found = await self.read(statement, row)
        if len(found) > 1:
            raise ValueError(f"{len(found)} rows where one was expected")
        return found[0] if found else None

    @property
    def is_damaged(self) -> bool:
        """Whether a damaged page was met while writing: nothing is written any more."""
        return self._writer.damage is not None

    async def ping(self) -> None:
        """Raises StoreUnavailable if the database does not answer."""
        await self.read(select(literal(1)))

    async def run(self) -> None:
        """The writer, owned by a task group. Without it commits wait for ever."""
        await self._writer.run()

    async def close(self) -> None:
        """After `run` has ended."""
        await self._database.close()

    def _require_lease(self) -> None:
        if not self._epoch:
            raise LeaseLost("this master does not lead: take_lease() comes first")

    def _check_lease(self, connection: Connection) -> None:
        lease.check_lease(connection, self._epoch)

    async def _load_last_ids(self) -> None:
        for table in SQLModel.metadata.sorted_tables:
            if "id" in table.c and isinstance(table.c.id.type, Integer):
                last: int = await self.read_one(select(func.max(table.c.id))) or 0
                self._last_ids[table.name] = max(last, self._last_ids.get(table.name, 0))

    async def _write(self, work: Callable[[Connection], T]) -> T:
        try:
            return await self._database.write(work)
        except Exception as error:
            raise as_windlass_error(error) from error
