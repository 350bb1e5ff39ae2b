"""Accounting exports: allocations one by one, and slot seconds by day or month; as CSV, and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from datetime import UTC, date, datetime
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.enums import AggregationPeriod
from master.api.http.text_stream import TextStream
from master.api.permits import VISIBLE, permit
from master.api.replies import Document, answers, encode
from master.api.request_models import Query as QueryModel
from master.api.request_models import Time, Word
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import Timestamp, time
from master.auth.actions import Action
from master.core.visibility import Visibility
from master.usage.allocations import Interval, UsedAllocation, used_allocations
from master.usage.phases import Spent, spans_of, spent
from master.usage.sums import Adder, Kind, Period, Sums, days
from windlass.base.errors import InvalidArgument

router = APIRouter(route_class=ApiRoute, tags=["resources"])

Cell: TypeAlias = str | int | float | None
MAX_DAYS = 3_660
"""Of one export by day or month: ten years."""


class CsvResponse(Response):
    media_type = "text/csv"


class InTime(QueryModel):
    timestamp_after: Time
    timestamp_before: Time

    def interval(self) -> Interval:
        if self.timestamp_before < self.timestamp_after:
            raise InvalidArgument("timestampBefore: is before timestampAfter")
        return Interval(self.timestamp_after, self.timestamp_before)


class InDays(QueryModel):
    start_date: date
    end_date: date
    """Included."""
    period: Annotated[
        str, Word("RESOURCE_ALLOCATION_AGGREGATION_PERIOD_", tuple(Period.__members__))
    ]

    def wanted(self) -> tuple[Interval, Period]:
        if not self.period:
            raise InvalidArgument("period: must be DAILY or MONTHLY")
        if self.end_date < self.start_date:
            raise InvalidArgument("endDate: is before startDate")
        if (self.end_date - self.start_date).days > MAX_DAYS or self.end_date == date.max:
            raise InvalidArgument(f"endDate: more than {MAX_DAYS} days: ask for fewer at once")
        return days(self.start_date, self.end_date), Period(self.period)


class RawEntry(TypedDict):
    kind: str
    startTime: Timestamp
    endTime: Timestamp | None
    experimentId: int
    username: str
    userId: int
    labels: list[str]
    slots: int
    seconds: float


class RawReply(TypedDict):
    resourceEntries: list[RawEntry]


class AggregatedEntry(TypedDict):
    periodStart: str
    period: AggregationPeriod
    seconds: float
    byUsername: dict[str, float]
    byExperimentLabel: dict[str, float]
    byResourcePool: dict[str, float]


class AggregatedReply(TypedDict):
    resourceEntries: list[AggregatedEntry]


ALLOCATION_COLUMNS = (
    "allocation_id",
    "task_type",
    "username",
    "workspace_name",
    "experiment_id",
    "slots",
    "start_time",
    "end_time",
    "imagepulling_time",
    "slot_hours",
    "resource_pool",
)
RAW_COLUMNS = (
    "experiment_id",
    "kind",
    "username",
    "labels",
    "slots",
    "start_time",
    "end_time",
    "seconds",
)
SUM_COLUMNS = ("aggregation_type", "aggregation_key", "date", "seconds")


@router.get("/resources/allocation/allocations-csv", response_class=CsvResponse)
@permit(Action.VIEW_USAGE, VISIBLE)
async def allocations_csv(
    query: Annotated[InTime, Query()], visible: Visible, api: TheApi
) -> Response:
    """Every allocation that ran within the time; slot hours count only that."""
    interval, now = query.interval(), api.services.clock.now()

    async def pages() -> AsyncGenerator[str, None]:
        yield _csv([ALLOCATION_COLUMNS])
        async for page in used_allocations(api.services.store, interval, visible):
            yield _csv(_allocation_cells(one, interval, now) for one in page)

    return TextStream(pages(), api.closing, media_type="text/csv")


def _allocation_cells(one: UsedAllocation, interval: Interval, now: datetime) -> tuple[Cell, ...]:
    seconds = one.slots * interval.seconds(one.started_at, one.until(now))
    return (
        one.id,
        one.task_type,
        one.username,
        one.workspace,
        one.experiment_id,
        one.slots,
        _second(one.started_at),
        _second(one.ended_at),
        None if one.pull_s is None else round(one.pull_s, 3),
        round(seconds / 3600, 6),
        one.pool,
    )


@router.get("/resources/allocation/raw", response_class=CsvResponse)
@permit(Action.VIEW_USAGE, VISIBLE)
async def raw_csv(query: Annotated[InTime, Query()], visible: Visible, api: TheApi) -> Response:
    """What runs of experiments spent their time on."""
    interval = query.interval()

    async def pages() -> AsyncGenerator[str, None]:
        yield _csv([RAW_COLUMNS])
        async for entries in _raw_entries(api, interval, visible):
            yield _csv(map(_raw_cells, entries))

    return TextStream(pages(), api.closing, media_type="text/csv")


@router.get("/api/v1/resources/allocation/raw")
@answers(RawReply)
@permit(Action.VIEW_USAGE, VISIBLE)
async def raw(query: Annotated[InTime, Query()], visible: Visible, api: TheApi) -> Response:
    """What runs of experiments spent their time on."""
    entries = _raw_entries(api, query.interval(), visible)
    return TextStream(_json(entries), api.closing, media_type="application/json")


async def _raw_entries(
    api: ApiContext, interval: Interval, visible: Visibility
) -> AsyncGenerator[list[RawEntry], None]:
    store, now = api.services.store, api.services.clock.now()
    async for page in used_allocations(store, interval, visible):
        runs = [one for one in page if one.experiment_id is not None]
        spans = await spans_of(store, runs, interval)
        yield [
            _raw_entry(run, part)
            for run in runs
            for part in spent(run, spans.get((run.trial_id or 0, run.run_id), ()), interval, now)
        ]


def _raw_entry(run: UsedAllocation, part: Spent) -> RawEntry:
    return {
        "kind": part.phase,
        "startTime": time(part.start),
        "endTime": time(part.end),
        "experimentId": run.experiment_id or 0,
        "username": run.username,
        "userId": run.user_id,
        "labels": list(run.labels or ()),
        "slots": run.slots,
        "seconds": part.seconds,
    }


def _raw_cells(entry: RawEntry) -> tuple[Cell, ...]:
    return (
        entry["experimentId"],
        entry["kind"],
        entry["username"],
        ",".join(entry["labels"]),
        entry["slots"],
        entry["startTime"],
        entry["endTime"],
        entry["seconds"],
    )


@router.get("/resources/allocation/aggregated", response_class=CsvResponse)
@permit(Action.VIEW_USAGE, VISIBLE)
async def aggregated_csv(
    query: Annotated[InDays, Query()], visible: Visible, api: TheApi
) -> Response:
    """Slot seconds of all work, by day or month."""
    interval, period = query.wanted()

    async def pages() -> AsyncGenerator[str, None]:
        yield _csv([SUM_COLUMNS])
        for sums in await _sums(api, interval, period, visible):
            yield _csv(
                (kind, key, period.text(sums.first), seconds) for kind, key, seconds in sums.lines()
            )

    return TextStream(pages(), api.closing, media_type="text/csv")


@router.get("/api/v1/resources/allocation/aggregated")
@answers(AggregatedReply)
@permit(Action.VIEW_USAGE, VISIBLE)
async def aggregated(query: Annotated[InDays, Query()], visible: Visible, api: TheApi) -> Response:
    """Slot seconds of all work, by day or month."""
    interval, period = query.wanted()

    async def entries() -> AsyncGenerator[list[AggregatedEntry], None]:
        for sums in await _sums(api, interval, period, visible):
            yield [_aggregated(sums, period)]

    return TextStream(_json(entries()), api.closing, media_type="application/json")


def _aggregated(sums: Sums, period: Period) -> AggregatedEntry:
    return {
        "periodStart": period.text(sums.first),
        "period": AggregationPeriod[period.name],
        "seconds": sums.by[Kind.TOTAL]["total"],
        "byUsername": dict(sums.by[Kind.USER]),
        "byExperimentLabel": dict(sums.by[Kind.LABEL]),
        "byResourcePool": dict(sums.by[Kind.POOL]),
    }


async def _sums(
    api: ApiContext, interval: Interval, period: Period, visible: Visibility
) -> Sequence[Sums]:
    adder = Adder(interval, period, api.services.clock.now())
    async for page in used_allocations(api.services.store, interval, visible):
        adder.add(page)
    return adder.sums()


async def _json(pages: AsyncGenerator[Sequence[Document], None]) -> AsyncGenerator[str, None]:
    """One object with all entries, of which no more than a page is in memory."""
    yield '{"resourceEntries":['
    before = ""
    async with aclosing(pages):
        async for page in pages:
            if page:
                yield before + ",".join(encode(entry).decode() for entry in page)
                before = ","
    yield "]}"


def _csv(rows: Iterable[Sequence[Cell]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _second(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
