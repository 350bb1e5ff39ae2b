"""One root that is not over: its state in memory, and the one way to change it.

    messages that wait -> pure steps, one after another -> one commit -> new state, subscribers, answers -> effects

A step that raises is left out alone. A commit that the store refuses changes nothing and fails the whole batch; if it
is the rows that cannot be written, each message is tried alone.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import structlog

from master.allocations.effects import Effects
from master.allocations.machine import AllocationState
from master.allocations.ports import AllocationOwner
from master.allocations.service import AllocationService
from master.core.actor import Actor
from master.jobs.ports import JobRoot
from master.parsing import in_parsing_thread
from master.roots.mailbox import Mailbox, MailboxMessage
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from rm_backends.base import JobOrder, ResourceManager
from windlass.base.errors import LeaseLost, StoreUnavailable


class OrderSync:
    """Of one job. Requests, and the records of a restart, bring the order along: it begins as told."""

    def __init__(self, rm: Callable[[], ResourceManager], order: JobOrder) -> None:
        self._rm = rm
        self._told = order

    def differs(self, order: JobOrder) -> bool:
        """Whether `order` is news."""
        return order != self._told

    async def tell(self, order: JobOrder) -> None:
        """Does nothing if it is known. What fails is still news afterwards."""
        if not self.differs(order):
            return
        try:
            await self._rm().update_job(order)
        except Exception:
            log.exception("a changed order was not told", job=order.job_id)
        else:
            self._told = order


log = structlog.get_logger(__name__)

State = TypeVar("State")
State_co = TypeVar("State_co", covariant=True)
Env = TypeVar("Env")
"""What a step may not find out by itself: the time, fresh ids."""

STEPS_AT_ONCE = 20
"""Then others on the event loop get a turn."""


class StepLike(Protocol[State_co]):
    """What a pure step answers."""

    @property
    def state(self) -> State_co: ...

    @property
    def effects(self) -> Effects:
        """To run once the state is committed."""
        ...


Step = TypeVar("Step", bound=StepLike[Any])


@dataclass(frozen=True, slots=True)
class Transition(Generic[State, Step]):
    """One step of a batch, and the state that it began with; None for a new root."""

    before: State | None
    step: Step
    by: Actor | None = None
    """None: no user asked for it, but a report, the scheduler or the clock brought it about."""


AllocationChange: TypeAlias = tuple[AllocationState | None, AllocationState]
"""One allocation before (None: it is new) and after."""


@dataclass(frozen=True, slots=True)
class _Work(Generic[State, Env, Step]):
    step: Callable[[State, Env], Step] | None
    """None: only what follows a commit is to be done again."""
    committed: Callable[[], None] | None = None
    """Called once it is written down."""
    is_first: bool = False
    """It creates the root."""
    by: Actor | None = None
    large: bool = False
    """It may change thousands of things: step and rows are made off the event loop."""


_Message: TypeAlias = MailboxMessage[_Work[State, Env, Step], State]


@dataclass(slots=True)
class _Ran(Generic[State, Env, Step]):
    """A batch whose steps were run, and are not committed."""

    state: State
    transitions: list[Transition[State, Step]] = field(default_factory=list)
    done: list[tuple[_Message[State, Env, Step], State]] = field(default_factory=list)
    failed: list[tuple[_Message[State, Env, Step], Exception]] = field(default_factory=list)


class Root(AllocationOwner, JobRoot, Generic[State, Env, Step]):
    """Kinds of roots say what a step needs, what it writes and what it asks for; the rest is here."""

    def __init__(
        self,
        state: State,
        *,
        name: str,
        order: JobOrder,
        store: Store,
        allocations: AllocationService,
    ) -> None:
        self.state = state
        self._store = store
        self._allocations = allocations
        self._order = OrderSync(lambda: allocations.rm, order)
        self._subscribers: list[Callable[[Transition[State, Step]], None]] = []
        self._mailbox: Mailbox[_Work[State, Env, Step], State] = Mailbox(self._handle, name=name)
        self._changed = asyncio.Condition()

    @property
    @abstractmethod
    def id(self) -> int | str: ...

    @property
    @abstractmethod
    def job_id(self) -> str: ...

    @property
    @abstractmethod
    def ended_at(self) -> datetime | None:
        """None while it is not over."""

    @property
    def is_over(self) -> bool:
        return self.ended_at is not None

    @property
    def quiet_since(self) -> datetime | None:
        """When it was last of use to anybody; None while it is not over."""
        return self.ended_at

    @abstractmethod
    def env(self) -> Env: ...

    @abstractmethod
    def rows(self, transitions: Sequence[Transition[State, Step]]) -> UnitOfWork:
        """What a batch of steps writes."""

    @abstractmethod
    def changed_allocations(
        self, transition: Transition[State, Step]
    ) -> Iterable[AllocationChange]: ...

    @abstractmethod
    def open_allocations(self) -> Iterable[AllocationState]: ...

    @abstractmethod
    def task_name(self, allocation: AllocationState) -> str:
        """For people."""

    @abstractmethod
    def job_order(self) -> JobOrder: ...

    @abstractmethod
    async def settle(self) -> None:
        """After a restart: make the allocations match the phase."""

    @abstractmethod
    async def clock_jumped(self, by: timedelta) -> None:
        """The wall clock was set: everything is to be exactly as old as it was."""

    @abstractmethod
    async def keep_deadlines(self, now: datetime) -> None:
        """Do what is due."""

    def resumed(self) -> None:
        """After a restart, when all is settled."""

    def subscribe(self, subscriber: Callable[[Transition[State, Step]], None]) -> None:
        """From now on it is told of each step, once that is committed, and before anybody else can see the new state.

        So what it derives from the state (indexes, deadlines) is never older than the state.
        """
        self._subscribers.append(subscriber)

    async def create(
        self, first: Callable[[State, Env], Step], created: Callable[[], None], *, by: Actor
    ) -> None:
        """Write down a new root as its first step leaves it; `created` is called once that is committed.

        In the mailbox, like all that follows: a caller that goes away leaves either nothing or a living root.
        """
        await self._mailbox.ask(_Work(first, committed=created, is_first=True, by=by, large=True))

    async def apply(
        self,
        step: Callable[[State, Env], Step],
        *,
        by: Actor | None = None,
        large: bool = False,
        committed: Callable[[], None] | None = None,
    ) -> State:
        """Run a pure step, commit it; the state as the step left it.

        `large`: it may take long, so that another thread runs it. No step of this root runs beside it.
        `committed` is called before its effects run.
        """
        return await self._mailbox.ask(_Work(step, by=by, large=large, committed=committed))

    async def wait_until(self, reached: Callable[[State], bool]) -> State:
        """Block until the state satisfies `reached`."""
        async with self._changed:
            await self._changed.wait_for(lambda: reached(self.state))
        return self.state

    @property
    def has_unsynced_order(self) -> bool:
        """Its place in the queue has changed, and a resource manager could not be told."""
        return not self.is_over and self._order.differs(self.job_order())

    async def sync_order(self) -> None:
        """Try again to tell."""
        if self.has_unsynced_order:
            await self._mailbox.ask(_Work(None))

    async def _sync_order(self) -> None:
        """What fails is tried again by `LiveRoots.tick`."""
        if self.has_unsynced_order:
            await self._order.tell(self.job_order())

    async def _handle(self, batch: list[_Message[State, Env, Step]]) -> None:
        ran = await self._run(batch)
        try:
            if rows := await self._rows(ran):
                await self._store.commit(rows)
        except (LeaseLost, StoreUnavailable):
            raise
        except Exception:
            # What one message writes cannot be written: the others do not fail for it.
            if len(batch) == 1:
                raise
            await self._handle_alone(batch)
            return
        self.state = ran.state
        for message, why in ran.failed:
            message.refuse(why)
        await self._committed(ran.transitions, ran.done)

    async def _rows(self, ran: _Ran[State, Env, Step]) -> UnitOfWork:
        if any(message.content.large for message, _ in ran.done):
            return await in_parsing_thread(self.rows, ran.transitions)
        return self.rows(ran.transitions)

    async def _handle_alone(self, batch: Sequence[_Message[State, Env, Step]]) -> None:
        for message in batch:
            try:
                await self._handle([message])
            except LeaseLost:
                raise
            except Exception as error:
                if message.is_answered:
                    log.exception("a message failed after its answer", root=self.id)
                message.refuse(error)

    async def _run(self, batch: Sequence[_Message[State, Env, Step]]) -> _Ran[State, Env, Step]:
        """The steps, one after another; nothing is changed yet."""
        ran: _Ran[State, Env, Step] = _Ran(self.state)
        for number, message in enumerate(batch, 1):
            if number % STEPS_AT_ONCE == 0:
                await asyncio.sleep(0)
            work = message.content
            try:
                step = await self._step(work, ran.state)
            except Exception as error:  # noqa: BLE001  (its caller gets it)
                ran.failed.append((message, error))
                continue
            if step is not None:
                before = None if work.is_first else ran.state
                ran.transitions.append(Transition(before, step, work.by))
                ran.state = step.state
            ran.done.append((message, ran.state))
        return ran

    async def _step(self, work: _Work[State, Env, Step], state: State) -> Step | None:
        if work.step is None:
            return None
        if work.large:
            return await in_parsing_thread(work.step, state, self.env())
        return work.step(state, self.env())

    async def _committed(
        self,
        transitions: Sequence[Transition[State, Step]],
        done: Sequence[tuple[_Message[State, Env, Step], State]],
    ) -> None:
        """Nothing awaits before the effects: new allocations and what subscribers keep are known with the state."""
        for message, _ in done:
            if message.content.committed is not None:
                message.content.committed()
        for transition in transitions:
            for _, allocation in self.changed_allocations(transition):
                if allocation.is_open:
                    self._allocations.adopt(allocation, self)
        self._tell(transitions)
        for message, state in done:
            message.answer(state)
        for transition in transitions:
            await self._allocations.run_effects(transition.step.effects)
        await self._sync_order()
        async with self._changed:
            self._changed.notify_all()

    def _tell(self, transitions: Sequence[Transition[State, Step]]) -> None:
        """What a subscriber does is never the failure of a step."""
        for transition in transitions:
            for subscriber in self._subscribers:
                try:
                    subscriber(transition)
                except Exception:
                    log.exception("a subscriber failed", root=self.id)
