"""One process of the master inside the simulation: what belongs to it, its lines to the outside, and its kill -9.

A real process that is killed stops between two instructions; nothing it would have done later happens. Here the same
is had by cutting, in one synchronous step, everything by which a master can change the world: its database refuses
to commit or read, its connections to agents break with what was on the way, its calls to providers go unanswered, its
API callers lose their connections. Only then are its tasks cancelled, and whatever their clean-up does reaches nobody.
A master on inline SQLite stops only at an await, where each commit is either whole or not begun; kills can be placed
directly before and directly after the n-th commit, which is where the written and the said may part.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

from sqlalchemy import Connection

from master.api.services import Services
from master.app import Master, MasterOptions
from master.store import store as store_module
from master.store.sql.apply import Written, apply_units
from master.store.sql.database import Database, open_database
from master.store.unit_of_work import UnitOfWork
from tests.fakes.memory_channel import MemoryChannel

T = TypeVar("T")
Handler = Callable[[Services], Awaitable[T]]

_OWNER: contextvars.ContextVar[MasterProcess | None] = contextvars.ContextVar("owner", default=None)


class Unreachable(Exception):
    """Nobody answers at the master's address, or the connection broke before the answer."""


class PowerCut(OSError):
    """What code of a killed process gets when it reaches for the outside."""


class Watch:
    """What the world does at each commit of the state store. Both calls may kill the process."""

    def before_commit(self, process: MasterProcess) -> None: ...

    def after_commit(self, process: MasterProcess, units: Sequence[UnitOfWork]) -> None: ...


class CuttableDatabase:
    """The state store's database, behind a line that a kill cuts."""

    def __init__(self, inner: Database, process: MasterProcess) -> None:
        self._inner = inner
        self._process = process
        self.dialect = inner.dialect

    async def write(self, work: Callable[[Connection], T]) -> T:
        process = self._process
        process.touch_outside()
        process.watch.before_commit(process)
        process.touch_outside()
        process.applied.clear()
        result = await self._inner.write(work)
        process.watch.after_commit(process, tuple(process.applied))
        return result

    async def read(self, work: Callable[[Connection], T]) -> T:
        self._process.touch_outside()
        return await self._inner.read(work)

    async def close(self) -> None:
        await self._inner.close()


class MasterProcess:
    """Started at once."""

    def __init__(self, options: Callable[[MasterProcess], MasterOptions], watch: Watch) -> None:
        self.watch = watch
        self.applied: list[UnitOfWork] = []
        """Units of the transaction under way."""
        self.alive = True
        self.services: Services | None = None
        """What the API calls, once it is ready."""
        self.failure: BaseException | None = None
        """Why it ended by itself."""
        self._options = options(self)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._channels: list[MemoryChannel] = []
        self._replies: dict[asyncio.Future[Any], None] = {}
        self._context = contextvars.copy_context()
        self._context.run(_OWNER.set, self)
        self.spawn(self._run())

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something as a part of this process."""
        return asyncio.get_running_loop().create_task(work, context=self._context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda t: self._tasks.pop(t, None))

    def touch_outside(self) -> None:
        if not self.alive:
            raise PowerCut("this process was killed")

    async def _run(self) -> None:
        try:
            master = await Master.open(self._options)
            running = self.spawn(master.run())
            ready = self.spawn(master.ready())
            await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
            if self.alive and ready.done():
                self.services = master.services
            await running
        except Exception as error:  # noqa: BLE001 - its parent looks at `failure`
            if self.alive:
                self.failure = error
        finally:
            self.kill()

    async def call(self, handler: Handler[T]) -> T:
        """One request to its API. It goes on here even if the caller is gone."""
        services = self.services
        if services is None or not self.alive:
            raise Unreachable
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._replies[reply] = None
        self.spawn(self._answer(handler, services, reply))
        return await reply

    async def _answer(
        self, handler: Handler[T], services: Services, reply: asyncio.Future[T]
    ) -> None:
        try:
            result = await handler(services)
        except Exception as error:  # noqa: BLE001 - errors are answers
            if not reply.done():
                reply.set_exception(error)
        else:
            if not reply.done():
                reply.set_result(result)
        finally:
            self._replies.pop(reply, None)

    def serve_agent(
        self, channel: MemoryChannel, *, pool: str, token: str, credential: str = ""
    ) -> None:
        """The master's end of a new connection. Raises Unreachable."""
        services = self.services
        if services is None or not self.alive:
            raise Unreachable
        self._channels.append(channel)
        self.spawn(
            services.gateway.serve(
                channel, pool=pool, token=token, credential=credential, peer="10.0.0.1"
            )
        )

    def kill(self) -> None:
        """SIGKILL. Synchronous: from here on nothing of it reaches the outside. May be called by its own tasks."""
        if not self.alive:
            return
        self.alive = False
        self.services = None
        for channel in self._channels:
            channel.cut()
        for reply in list(self._replies):
            if not reply.done():
                reply.set_exception(Unreachable())
        for task in list(self._tasks):
            task.cancel()

    async def buried(self) -> None:
        """Returns when no task of it is left. The caller is not one of them."""
        while self._tasks:
            for task in list(self._tasks):
                if not self.alive:
                    task.cancel()
            await asyncio.wait(list(self._tasks), timeout=1.0)


@contextmanager
def processes() -> Iterator[None]:
    """Inside, tasks made by a master belong to its process, and its state store can be cut."""

    def make_task(
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T],
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        owner = context.get(_OWNER) if context is not None else _OWNER.get()
        task = asyncio.Task(coroutine, loop=loop, context=context)
        if owner is not None:
            owner.adopt(task)
        return task

    def open_cuttable(url: str, *, inline: bool = False) -> Database:
        process = _OWNER.get()
        assert process is not None
        return CuttableDatabase(open_database(url, inline=inline), process)

    def apply_and_note(connection: Connection, units: Sequence[UnitOfWork]) -> Sequence[Written]:
        process = _OWNER.get()
        assert process is not None
        process.applied.extend(units)
        return apply_units(connection, units)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(make_task)  # type: ignore[arg-type]
    with (
        mock.patch.object(store_module, "open_database", open_cuttable),
        mock.patch.object(store_module, "apply_units", apply_and_note),
    ):
        yield
    loop.set_task_factory(None)
