"""Task logs: shipped by tasks, read and followed by users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, TypeAlias, TypeVar

from fastapi import APIRouter, Query
from fastapi import Body as JsonBody
from pydantic import Field

from master.api.access import Caller, Visible, require
from master.api.following import Still
from master.api.http.permitted import WhilePermitted
from master.api.logs import replies
from master.api.logs.wire import log_fields, task_log, trial_log
from master.api.permits import IN_BODY, VISIBLE, permit
from master.api.replies import Document, Empty, JsonLines, Reply, reply
from master.api.request_models import Body, Int32, OptionalTime, Order, RowId, Text, Word
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute, HotRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import task_target
from master.auth.actions import Action
from master.auth.principal import Principal
from master.logs.rows import LogQuery, LogRow, TaskLine
from master.store.tables import Task
from rm_backends.base import Container
from windlass.base.errors import InvalidArgument

R = TypeVar("R", bound=Document)

router = APIRouter(route_class=ApiRoute, tags=["logs"])
hot = APIRouter(route_class=HotRoute, tags=["logs"])

Wait: TypeAlias = Callable[[], Awaitable[None]]
"""Returns when the task is over."""

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
Level = Annotated[str, Word("LOG_LEVEL_", LEVELS)]


class LogLine(Body):
    """`allocationId`, `agentId` and `source` of the published API are known here, and not taken from the body."""

    task_id: Text
    container_id: Text | None = None
    rank_id: Int32 | None = None
    timestamp: OptionalTime = None
    level: Level = ""
    log: str = ""
    stdtype: Text | None = None


class PostLogs(Body):
    logs: Annotated[tuple[LogLine, ...], Field(min_length=1)]


@hot.post("/api/v1/task/logs")
@permit(Action.REPORT, IN_BODY)
async def post(body: PostLogs, principal: Caller, api: TheApi) -> Reply[Empty]:
    task_ids = {line.task_id for line in body.logs}
    if len(task_ids) != 1:
        raise InvalidArgument("logs: all lines must have the same taskId")
    task_id = task_ids.pop()
    require(api, principal, Action.REPORT, await task_target(api, task_id, principal))
    now = api.services.clock.now()
    sender = _sender(api, principal)
    lines = []
    for line in body.logs:
        container = sender.container(line.container_id)
        lines.append(
            TaskLine(
                task_id=task_id,
                timestamp=line.timestamp or now,
                log=line.log,
                allocation_id=sender.allocation_id,
                agent_id=container.agent_id if container is not None else None,
                container_id=container.container_id if container is not None else None,
                rank_id=line.rank_id,
                level=line.level or None,
                stdtype=line.stdtype,
                source=sender.source,
            )
        )
    for container_id, own in _by_container(lines).items():
        await api.services.log_watch.look(
            own, allocation_id=sender.allocation_id or "", container_id=container_id
        )
    await api.services.logs.append(lines)
    return reply()


class UnmanagedLine(Body):
    """Snake case only, and a rank that is a text."""

    task_id: Text
    timestamp: OptionalTime = None
    rank: Annotated[Text, Field(pattern=r"^[0-9]{0,9}$")] = ""
    level: Level = ""
    log: str = ""
    stdtype: Text | None = None


@router.post("/task-logs")
@permit(Action.REPORT, IN_BODY)
async def post_unmanaged(
    body: Annotated[tuple[UnmanagedLine, ...], JsonBody(min_length=1)],
    principal: Caller,
    api: TheApi,
) -> Reply[Empty]:
    """Lines of processes outside of the cluster, in the form in which their client ships them."""
    for task_id in {line.task_id for line in body}:
        require(api, principal, Action.REPORT, await task_target(api, task_id, principal))
    now = api.services.clock.now()
    await api.services.logs.append(
        [
            TaskLine(
                task_id=line.task_id,
                timestamp=line.timestamp or now,
                log=line.log,
                rank_id=int(line.rank) if line.rank else None,
                level=line.level or None,
                stdtype=line.stdtype,
                source="user",
            )
            for line in body
        ]
    )
    return reply()


def _by_container(lines: Sequence[TaskLine]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.container_id is not None:
            found.setdefault(line.container_id, []).append(line.log)
    return found


@dataclass(frozen=True, slots=True)
class _Sender:
    """Who posts lines. The containers of a user are none."""

    source: str
    allocation_id: str | None = None
    containers: Sequence[Container] = ()

    def container(self, named: str | None) -> Container | None:
        """The one that a line names; without a name, the only one. Raises InvalidArgument."""
        if not self.allocation_id:
            return None
        if not named:
            return self.containers[0] if len(self.containers) == 1 else None
        found = next((c for c in self.containers if c.container_id == named), None)
        if found is None:
            raise InvalidArgument(
                f"logs.containerId: {named[:80]!r} is not a container of allocation {self.allocation_id}"
            )
        return found


def _sender(api: ApiContext, principal: Principal) -> _Sender:
    if principal.allocation_id is None:
        return _Sender("user")
    state = api.services.allocations.state(principal.allocation_id)
    containers = [started.container for started in state.containers]
    return _Sender("task", principal.allocation_id, containers)


class ReadLogs(QueryModel):
    follow: bool = False
    limit: Annotated[Int32, Field(ge=0)] = 0
    order_by: Order = ""
    allocation_ids: tuple[str, ...] = ()
    agent_ids: tuple[str, ...] = ()
    container_ids: tuple[str, ...] = ()
    rank_ids: tuple[Int32, ...] = ()
    levels: tuple[Level, ...] = ()
    stdtypes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    timestamp_before: OptionalTime = None
    timestamp_after: OptionalTime = None
    search_text: str = ""
    enable_regex: bool = False

    def of_task(self, task_id: str, by: int) -> LogQuery:
        if self.follow and self.limit:
            raise InvalidArgument("limit: not together with follow: a followed log has no end")
        return LogQuery(
            task_ids=(task_id,),
            limit=self.limit,
            descending=self.order_by == "DESC",
            allocation_ids=tuple(self.allocation_ids),
            agent_ids=tuple(self.agent_ids),
            container_ids=tuple(self.container_ids),
            rank_ids=tuple(self.rank_ids),
            levels=tuple(level for level in self.levels if level),
            stdtypes=tuple(self.stdtypes),
            sources=tuple(self.sources),
            after=self.timestamp_after,
            before=self.timestamp_before,
            search_text=self.search_text,
            regex=self.enable_regex,
            by=by,
        )


Filters = Annotated[ReadLogs, Query()]


@router.get("/api/v1/trials/{trial_id}/logs")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def of_trial(
    trial_id: RowId, query: Filters, visible: Visible, by: Caller, api: TheApi, still: Still
) -> JsonLines[replies.TrialLog]:
    task_id = await api.reads.tasks.task_of_trial(trial_id, visible)
    over = partial(_trial_over, api, trial_id)
    wanted = query.of_task(task_id, by.user_id)
    if not query.follow:  # what is followed is the task that may still go on
        tasks = await api.reads.tasks.tasks_of_trials([trial_id])
        wanted = replace(wanted, task_ids=tuple(tasks[trial_id]))
    permitted = still(partial(api.reads.tasks.task_of_trial, trial_id))
    return _stream(api, query, wanted, over, lambda row: trial_log(row, trial_id), permitted)


@router.get("/api/v1/tasks/{task_id}/logs")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def of_task(
    task_id: str, query: Filters, visible: Visible, by: Caller, api: TheApi, still: Still
) -> JsonLines[replies.TaskLog]:
    row = await api.reads.tasks.task(task_id, visible)
    wanted = query.of_task(task_id, by.user_id)
    permitted = still(partial(api.reads.tasks.task, task_id))
    return _stream(api, query, wanted, _task_over(api, row), task_log, permitted)


class ReadFields(QueryModel):
    follow: bool = False


@router.get("/api/v1/trials/{trial_id}/logs/fields")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def fields_of_trial(
    trial_id: RowId,
    query: Annotated[ReadFields, Query()],
    visible: Visible,
    api: TheApi,
    still: Still,
) -> JsonLines[replies.LogFields]:
    await api.reads.tasks.task_of_trial(trial_id, visible)
    tasks = (await api.reads.tasks.tasks_of_trials([trial_id]))[trial_id]
    permitted = still(partial(api.reads.tasks.task_of_trial, trial_id))
    return _stream_fields(api, query, tasks, partial(_trial_over, api, trial_id), permitted)


@router.get("/api/v1/tasks/{task_id}/logs/fields")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def fields_of_task(
    task_id: str,
    query: Annotated[ReadFields, Query()],
    visible: Visible,
    api: TheApi,
    still: Still,
) -> JsonLines[replies.LogFields]:
    row = await api.reads.tasks.task(task_id, visible)
    permitted = still(partial(api.reads.tasks.task, task_id))
    return _stream_fields(api, query, [task_id], _task_over(api, row), permitted)


def _stream_fields(
    api: ApiContext,
    query: ReadFields,
    task_ids: Sequence[str],
    over: Wait,
    permitted: WhilePermitted,
) -> JsonLines[replies.LogFields]:
    async def pages() -> AsyncGenerator[Sequence[replies.LogFields], None]:
        if not query.follow:
            yield [log_fields(await api.services.logs.fields(task_ids))]
            return
        async with _ended(over) as ended:
            found = api.services.logs.follow_fields(task_ids, ended)
            async with aclosing(found):
                async for fields in found:
                    yield [log_fields(fields)]

    return JsonLines(
        pages(),
        api.closing,
        eager=not query.follow,
        permitted=permitted if query.follow else None,
    )


def _stream(
    api: ApiContext,
    query: ReadLogs,
    wanted: LogQuery,
    over: Wait,
    shape: Callable[[LogRow], R],
    permitted: WhilePermitted,
) -> JsonLines[R]:
    if not query.follow:
        return JsonLines(_shaped(api.services.logs.pages(wanted), shape), api.closing)
    pages = _followed(api, wanted, over)
    return JsonLines(_shaped(pages, shape), api.closing, eager=False, permitted=permitted)


async def _shaped(
    pages: AsyncGenerator[Sequence[LogRow], None], shape: Callable[[LogRow], R]
) -> AsyncGenerator[Sequence[R], None]:
    async with aclosing(pages):
        async for rows in pages:
            yield [shape(row) for row in rows]


async def _followed(
    api: ApiContext, query: LogQuery, over: Wait
) -> AsyncGenerator[Sequence[LogRow], None]:
    """Lines as they come, until the task has ended and no more come."""
    async with (
        _ended(over) as ended,
        aclosing(api.services.logs.follow(query, until=ended)) as pages,
    ):
        async for rows in pages:
            yield rows


@asynccontextmanager
async def _ended(over: Wait) -> AsyncIterator[asyncio.Event]:
    """Set when the task is over."""
    ended = asyncio.Event()

    async def watch() -> None:
        await over()
        ended.set()

    watching = asyncio.create_task(watch())
    try:
        yield ended
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def _task_over(api: ApiContext, row: Task) -> Wait:
    if row.trial_id is not None:
        return partial(_trial_over, api, row.trial_id)
    return partial(_command_over, api, row.id)


async def _trial_over(api: ApiContext, trial_id: int) -> None:
    """Returns when the trial is over."""
    live = api.services.experiments.live_of_trial(trial_id)
    if live is not None:
        await live.wait_until(lambda _: live.trial(trial_id).phase.is_terminal)


async def _command_over(api: ApiContext, task_id: str) -> None:
    """Returns when the command is over; at once for a task of any other kind, which lives no more."""
    live = api.services.tasks.live(task_id)
    if live is not None:
        await live.wait_until(lambda state: state.is_over)
