"""Generic tasks: forks of others, trees of parents and children, and what is done to a whole tree.

Children come before their parent: a master that dies in between leaves a parent that can be killed or paused again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import select

from master.core.actor import Actor
from master.core.expconf.kinds import GenericConfig
from master.core.expconf.models.experiment import ROOT
from master.core.expconf.secrets import masked
from master.core.jobs import JobType
from master.core.visibility import EVERYTHING, Visibility
from master.store import tables
from master.store.contexts import ContextFile
from master.store.paging import Page, Paged
from master.store.store import Store
from master.tasks import machine
from master.tasks.interactive_queries import InteractiveFilter, InteractiveQueries
from master.tasks.live import LiveTask
from master.tasks.persistence import task_from_row
from master.tasks.service import CheckedTask, InteractiveService, NewTask
from master.tasks.state import NO_PAUSE, Ending, TaskPhase, TaskState
from windlass.base.errors import InvalidArgument, InvalidConfig, InvalidState, NotFound
from windlass.base.formats.documents import MalformedDocument, read_document
from windlass.base.formats.json_types import JsonMapping

SUBMITTED = "submitted"
"""The configuration as it was sent, over that of the forked task."""
FORKED_FROM = "forked_from"
ANCESTORS = "ancestors"
"""Of a child: ids from the root of its tree to its parent. They are older than it, so there are no cycles."""
HINT = " (make sure task is of type GENERIC)"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGenericTask:
    """A request, parsed from the wire but not yet checked."""

    config: Mapping[str, Any] | None
    """None: that of the forked task."""
    files: tuple[ContextFile, ...] = ()
    workspace_id: int = 1
    forked_from: str = ""
    parent_id: str = ""
    inherit_context: bool = False
    no_pause: bool = False


class GenericRow(NamedTuple):
    """One of a list."""

    state: TaskState
    username: str
    created_at: datetime


def read_config(text: str) -> dict[str, Any] | None:
    """None for no text at all. Raises InvalidConfig."""
    try:
        document = read_document(text) if text.strip() else None
    except MalformedDocument as error:
        raise InvalidConfig([f"{ROOT}: {error}"], what=GenericConfig.what()) from None
    if document is not None and not isinstance(document, dict):
        raise InvalidConfig([f"{ROOT}: must be a mapping of keys"], what=GenericConfig.what())
    return document


def ancestors(state: TaskState) -> Sequence[str]:
    return tuple(state.details.get(ANCESTORS, ()))


class GenericTasks:
    """What users do with generic tasks beyond what they do with all tasks."""

    def __init__(self, tasks: InteractiveService, store: Store) -> None:
        self._tasks = tasks
        self._store = store
        self._queries = InteractiveQueries(store)

    async def create(self, new: NewGenericTask, *, by: Actor, visible: Visibility) -> CheckedTask:
        """Check it together with what it is forked from and its parent, and launch it."""
        _require_consistent(new)
        forked = await self.state(new.forked_from, visible) if new.forked_from else None
        parent = await self.state(new.parent_id, visible) if new.parent_id else None
        above = (*ancestors(parent), parent.id) if parent is not None else ()
        await self._require_not_killed(above)
        submitted = {**(_submitted(forked, visible) if forked else {}), **(new.config or {})}
        context = None
        if new.inherit_context and parent is not None:
            context = parent.context
        elif forked is not None and not new.files:
            context = forked.context
        task = NewTask(
            type=JobType.GENERIC,
            config=submitted,
            files=new.files,
            context=context,
            workspace_id=new.workspace_id,
            details={
                SUBMITTED: submitted,
                FORKED_FROM: new.forked_from,
                ANCESTORS: list(above),
                NO_PAUSE: new.no_pause,
            },
        )
        created = await self._tasks.launch(task, by=by)
        try:
            # A kill of the tree may have begun before this child was one of it.
            await self._require_not_killed(above)
        except InvalidState:
            await self._tasks.kill(created.id, by=by)
            raise
        return created

    async def state(self, task_id: str, visible: Visibility) -> TaskState:
        """Of one that may be over. Raises NotFound, also for tasks of other types."""
        live = self._tasks.live(task_id)
        try:
            row = await self._queries.task(task_id, visible, type_=JobType.GENERIC)
        except NotFound:
            raise NotFound("generic task", task_id, HINT) from None
        return live.state if live is not None else task_from_row(row.task, None)

    async def listed(
        self, page: Page, visible: Visibility, *, with_ended: bool
    ) -> Paged[GenericRow]:
        where = InteractiveFilter(with_ended=with_ended)
        found = await self._queries.tasks(JobType.GENERIC, where, page, visible)
        rows = [
            GenericRow(self._newest(row.task), row.username, row.task.created_at)
            for row in found.rows
        ]
        return Paged(rows=rows, total=found.total, offset=found.offset, limit=found.limit)

    def _newest(self, row: tables.Command) -> TaskState:
        """Its state in memory, if it has one: it may be newer, and has its allocation."""
        live = self._tasks.live(row.id)
        return live.state if live is not None else task_from_row(row, None)

    async def root_of(self, task_id: str) -> str:
        """The id of the top of its tree. Raises NotFound."""
        state = await self.state(task_id, EVERYTHING)
        return next(iter(ancestors(state)), task_id)

    async def kill(self, task_id: str, *, from_root: bool, by: Actor) -> None:
        """End it and all below it, or with `from_root` its whole tree. Raises NotFound, InvalidState."""
        state = await self.state(task_id, EVERYTHING)
        top = next(iter(ancestors(state)), task_id) if from_root else task_id
        is_refused = not self._living(top) if from_root else True
        if is_refused and state.ending in (Ending.CANCELED, Ending.COMPLETED):
            found = machine.generic_state(state)
            raise InvalidState(f"cannot cancel task {task_id} as it is in state {found}")
        while living := [one for one in self._living(top) if _may_be_killed(one)]:
            for live in living:
                await live.apply(partial(machine.kill, reason=f"by {by}"), by=by)

    async def pause(self, task_id: str, *, by: Actor) -> None:
        """And all below it that may be paused now. Raises NotFound, InvalidState."""
        live = await self._require_live(task_id, "paused")
        step = partial(machine.pause, reason=f"paused by {by}")
        step(live.state, live.env())  # what is refused pauses nothing below it
        for one in self._living(task_id):
            if one is not live:
                with suppress(InvalidState):
                    await one.apply(step, by=by)
        await live.apply(step, by=by)

    async def unpause(self, task_id: str, *, by: Actor) -> None:
        """Raises NotFound, InvalidState."""
        live = await self._require_live(task_id, "unpaused")
        await live.apply(machine.unpause, by=by)

    async def resume(self) -> None:
        """After a restart: a child that was created while its tree was killed goes with it."""
        for live in self._tasks.roots:
            if above := ancestors(live.state):
                try:
                    await self._require_not_killed(above)
                except InvalidState:
                    await live.apply(partial(machine.kill, reason="with its parent"))

    def _living(self, top: str) -> list[LiveTask]:
        """Of the tree below `top`, and itself: those that are not over, children before their parents."""
        living = [
            live
            for live in self._tasks.roots.job_roots()
            if live.id == top or top in ancestors(live.state)
        ]
        return sorted(living, key=lambda live: len(ancestors(live.state)), reverse=True)

    async def _require_live(self, task_id: str, what: str) -> LiveTask:
        live = self._tasks.live(task_id)
        if live is not None and live.state.type is JobType.GENERIC:
            return live
        state = await self.state(task_id, EVERYTHING)
        found = machine.generic_state(state)
        raise InvalidState(f"{state.name} cannot be {what}: it is in state {found}")

    async def _require_not_killed(self, above: Collection[str]) -> None:
        """Raises InvalidState for a child of a tree that was killed."""
        row = tables.Command
        killed = await self._store.read(
            select(row.id).where(
                row.id.in_(above),
                (row.state == TaskPhase.STOPPING.value) | (row.ending == Ending.CANCELED.value),
            )
        )
        if killed:
            raise InvalidState(f"parentId: generic task {killed[0]} was killed: it has no children")


def _may_be_killed(live: LiveTask) -> bool:
    return not live.state.is_over and live.state.phase is not TaskPhase.STOPPING


def _submitted(state: TaskState, visible: Visibility) -> JsonMapping:
    submitted: JsonMapping = state.details.get(SUBMITTED, {})
    return submitted if visible.shows_secrets_of(state.owner_id) else masked(submitted)


def _require_consistent(new: NewGenericTask) -> None:
    """Raises InvalidArgument with every problem."""
    problems = []
    if new.config is None and not new.forked_from:
        problems.append("No config file nor forked task provided: set config or forkedFrom")
    if new.inherit_context and not new.parent_id:
        problems.append("inheritContext: needs parentId, the task whose files it gets")
    if new.inherit_context and new.files:
        problems.append("inheritContext: not together with contextDirectory: send files or inherit")
    if problems:
        raise InvalidArgument("; ".join(problems))
