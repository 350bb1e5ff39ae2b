"""Finding one's way in the log of a task: parts of it by the numbers of lines, its lines by time, and a search."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.logs.replies import TaskLog
from master.api.logs.routes import Level
from master.api.logs.wire import task_log
from master.api.permits import VISIBLE, permit
from master.api.replies import JsonLines, Reply, reply
from master.api.request_models import Int32, Int64, OptionalTime
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import Int64 as Int64Text
from master.api.values import Timestamp, time
from master.auth.actions import Action
from master.logs.finding import Histogram
from master.logs.rows import LogQuery, from_microseconds
from master.logs.searching import Buckets, Step
from master.logs.windows import Around, NumberedRow
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])

MOST_LINES = 2_000
"""Of a window."""
MOST_HITS = 10_000
"""That one search lists; all are counted."""
MOST_BUCKETS = 1_000


class LineFilters(QueryModel):
    levels: tuple[Level, ...] = ()
    rank_ids: tuple[Int32, ...] = ()
    """-1: lines without a rank."""

    def of_task(self, task_id: str) -> LogQuery:
        return LogQuery(
            task_ids=(task_id,),
            levels=tuple(level for level in self.levels if level),
            rank_ids=self.rank_ids,
        )


class ReadWindow(LineFilters):
    """Around `line` (a number), `id` or `time`, or what was stored `since` an id; without any, the end."""

    line: Annotated[Int32, Field(ge=1)] | None = None
    id: Int64 | None = None
    time: OptionalTime = None
    since: Int64 | None = None
    before: Annotated[Int32, Field(ge=0, le=MOST_LINES)] = 100
    after: Annotated[Int32, Field(ge=0, le=MOST_LINES)] = 100
    """With `since`: at most so many, the last ones."""

    def around(self) -> Around:
        return Around(
            line=self.line, id=self.id, time=self.time, before=self.before, after=self.after
        )


class SearchLogs(LineFilters):
    text: str = ""
    regex: str = ""
    """In the syntax of RE2."""
    limit: Annotated[Int32, Field(ge=0, le=MOST_HITS)] = 1_000
    """Hits that are listed; all are counted."""
    buckets: Annotated[Int32, Field(ge=1, le=MOST_BUCKETS)] = 100


class ReadCounts(QueryModel):
    buckets: Annotated[Int32, Field(ge=1, le=MOST_BUCKETS)] = 100
    """At most."""


class NumberedLog(TaskLog):
    number: int
    """From 1 on, by time. Lines that come late, with earlier times, move those behind them."""


class LogWindowReply(TypedDict):
    lines: list[NumberedLog]
    total: int
    """Lines of the task."""
    newestId: Int64Text
    """To ask for what is stored `since`."""


class LinesOfTime(TypedDict):
    start: Timestamp
    lines: int


class LogCountsReply(TypedDict):
    total: int
    bucketS: int
    """Seconds of one."""
    counts: list[LinesOfTime]
    """Those without lines are left out."""


class LogSearchStep(TypedDict):
    looked: int
    """Lines looked at so far."""
    total: int
    found: int
    """Hits so far."""
    hits: list[NumberedLog]
    """Those since the last step, up to the limit."""
    counts: list[LinesOfTime]
    """Hits since the last step, by time."""


@router.get("/tasks/{task_id}/logs/window")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def log_window(
    task_id: str, query: Annotated[ReadWindow, Query()], visible: Visible, api: TheApi
) -> Reply[LogWindowReply]:
    """A part of the log."""
    await api.reads.tasks.task(task_id, visible)
    named = [name for name in ("line", "id", "time", "since") if getattr(query, name) is not None]
    if len(named) > 1:
        raise InvalidArgument(f"{' and '.join(named)}: name one place only")
    wanted, finding = query.of_task(task_id), api.services.logs.finding
    if query.since is not None:
        window = await finding.since(wanted, query.since, max(1, query.after))
    else:
        window = await finding.around(wanted, query.around())
    return reply(
        {
            "lines": [_numbered(line) for line in window.lines],
            "total": window.total,
            "newestId": str(window.newest_id),
        }
    )


@router.get("/tasks/{task_id}/logs/counts")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def log_counts(
    task_id: str, query: Annotated[ReadCounts, Query()], visible: Visible, api: TheApi
) -> Reply[LogCountsReply]:
    """How many lines there are when."""
    await api.reads.tasks.task(task_id, visible)
    found = await api.services.logs.finding.histogram(task_id, query.buckets)
    return reply(
        {
            "total": found.total,
            "bucketS": found.width_us // 1_000_000,
            "counts": _counts(found, found.buckets),
        }
    )


@router.get("/tasks/{task_id}/logs/search")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def search_log(
    task_id: str,
    query: Annotated[SearchLogs, Query()],
    visible: Visible,
    by: Caller,
    api: TheApi,
) -> JsonLines[LogSearchStep]:
    """All lines that contain a text or match an expression, as they are found."""
    await api.reads.tasks.task(task_id, visible)
    if bool(query.text) == bool(query.regex):
        raise InvalidArgument("text, regex: one of them is what to search for")
    wanted = replace(
        query.of_task(task_id),
        search_text=query.text or query.regex,
        regex=bool(query.regex),
        by=by.user_id,
    )
    return JsonLines(_steps(api, task_id, wanted, query), api.closing)


async def _steps(
    api: ApiContext, task_id: str, wanted: LogQuery, query: SearchLogs
) -> AsyncGenerator[Sequence[LogSearchStep], None]:
    finding = api.services.logs.finding
    lines = await finding.histogram(task_id, query.buckets)
    buckets = Buckets(lines.first_us, lines.width_us)
    async with aclosing(finding.search(wanted, buckets, limit=query.limit)) as steps:
        async for step in steps:
            yield [_step(step, lines)]


def _step(step: Step, lines: Histogram) -> LogSearchStep:
    return {
        "looked": step.looked_at,
        "total": step.total,
        "found": step.found,
        "hits": [_numbered(hit) for hit in step.hits],
        "counts": _counts(lines, step.counts),
    }


def _numbered(line: NumberedRow) -> NumberedLog:
    return {**task_log(line.row), "number": line.number}


def _counts(of: Histogram, buckets: Mapping[int, int]) -> list[LinesOfTime]:
    return [
        {"start": time(from_microseconds(of.start_us(bucket))), "lines": buckets[bucket]}
        for bucket in sorted(buckets)
    ]
