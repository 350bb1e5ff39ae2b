"""Windows, numbers, counts and searches of logs say what a plain list of the lines says."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert

from master.core.patterns import Pattern
from master.logs import searching
from master.logs.counts import LineCounts
from master.logs.finding import LogFinding
from master.logs.matching import glance
from master.logs.regex_filter import RegexFilter
from master.logs.rows import EPOCH, LogQuery, TaskLine, to_microseconds
from master.logs.searching import Buckets, Step
from master.logs.store import LogStore
from master.logs.tables import MINUTE_US, LogCount, LogMeta
from master.logs.windows import Around
from tests.examples import examples
from tests.stores import running
from windlass.base.errors import InvalidArgument, NotFound

MINUTE = Buckets(0, MINUTE_US)
LINES = st.lists(
    st.builds(
        TaskLine,
        task_id=st.sampled_from(["t", "t", "other"]),
        # Within a few minutes, also before 1970, and out of order.
        timestamp=st.integers(-100, 250).map(lambda s: EPOCH + timedelta(seconds=s)),
        log=st.text("ab\0 \n", max_size=6),
        level=st.sampled_from(["INFO", "ERROR"]),
        rank_id=st.sampled_from([None, 0, 1]),
    ),
    max_size=40,
)


@asynccontextmanager
async def stored(lines: Sequence[TaskLine]) -> AsyncIterator[LogStore]:
    async with running(await LogStore.open("sqlite://")) as logs:
        for start in range(0, len(lines), 7):
            await logs.append(lines[start : start + 7])
        yield logs


def of_t(**filters: object) -> LogQuery:
    return LogQuery(task_ids=("t",), **filters)  # type: ignore[arg-type]


async def searched(logs: LogStore, query: LogQuery, limit: int) -> list[Step]:
    async with aclosing(logs.finding.search(query, MINUTE, limit=limit)) as steps:
        return [step async for step in steps]


@settings(max_examples=examples(40), deadline=None)
@given(
    LINES,
    st.sampled_from(["a", "b", "ab", " ", "\0", "a+b", "^$", "^b", "a$", "x", "b*", r"\Aa"]),
    st.booleans(),
    st.sampled_from([(), ("ERROR",)]),
    st.integers(0, 5),
    st.integers(1, 9),
)
def test_a_search_finds_what_python_finds(
    lines: list[TaskLine], wanted: str, regex: bool, levels: tuple[str, ...], limit: int, size: int
) -> None:
    async def compare() -> None:
        async with stored(lines) as logs:
            rows = await logs.query(of_t())
            if regex:
                found = re.compile(wanted.replace("$", r"\Z"))
                hit = [bool(found.search(row.log)) for row in rows]
            else:
                hit = [wanted in row.log for row in rows]
            expected = [
                (number, row)
                for number, (row, is_hit) in enumerate(zip(rows, hit, strict=True), 1)
                if is_hit and (not levels or row.level in levels)
            ]
            query = of_t(search_text=wanted, regex=regex, levels=levels)
            steps = await searched(logs, query, limit)
            hits = [(hit.number, hit.row) for step in steps for hit in step.hits]
            assert hits == expected[:limit]
            counts = sum((step.counts for step in steps), Counter[int]())
            assert counts == Counter(
                MINUTE.of(to_microseconds(row.timestamp)) for _, row in expected
            )
            assert steps[-1].found == len(expected)
            assert steps[-1].looked_at == steps[-1].total == len(rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("master.logs.finding.TEXT_LINES", size)
        patch.setattr("master.logs.finding.REGEX_LINES", size)
        asyncio.run(compare())


@settings(max_examples=examples(40), deadline=None)
@given(
    LINES,
    st.integers(0, 45),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from([(), (0,)]),
    st.booleans(),
)
def test_a_window_is_a_part_of_the_log_with_the_numbers_of_its_lines(
    lines: list[TaskLine],
    line: int,
    before: int,
    after: int,
    ranks: tuple[int, ...],
    of_old_release: bool,
) -> None:
    async def compare() -> None:
        async with stored(lines) as logs:
            finding = await counted_by_nobody(logs) if of_old_release else logs.finding
            rows = list(enumerate(await logs.query(of_t()), 1))
            anchor = max(1, min(line, len(rows)))
            wanted = [(n, row) for n, row in rows if not ranks or row.rank_id in ranks]
            behind = [one for one in wanted if one[0] >= anchor]
            ahead = [one for one in wanted if one[0] < anchor]
            part = Around(line=line, before=before, after=after)
            window = await finding.around(of_t(rank_ids=ranks), part)
            found = [(one.number, one.row) for one in window.lines]
            assert found == [*ahead[max(0, len(ahead) - before) :], *behind[: after + 1]]
            assert window.total == len(rows)
            if rows:
                number, row = rows[anchor - 1]
                same = await finding.around(of_t(), Around(id=row.id, before=0, after=0))
                assert [(one.number, one.row) for one in same.lines] == [(number, row)]
                then = await finding.around(of_t(), Around(time=row.timestamp, before=0, after=0))
                assert then.lines[0].row.timestamp == row.timestamp
                assert then.lines[0].number <= number
            histogram = await finding.histogram("t", 3)
            assert histogram.total == len(rows)
            assert len(histogram.buckets) <= 3

    asyncio.run(compare())


async def counted_by_nobody(logs: LogStore) -> LogFinding:
    """As if its lines were stored by a release that counted none."""

    def forget(connection: object) -> None:
        connection.execute(delete(LogCount))  # type: ignore[attr-defined]
        newest = {"key": "uncounted_to", "value": "1000"}
        connection.execute(insert(LogMeta), [newest])  # type: ignore[attr-defined]

    await logs._database.write(forget)
    return LogFinding(logs._database, RegexFilter(), LineCounts(1000))


async def test_what_came_since_is_found_by_the_order_of_storing() -> None:
    late = TaskLine(task_id="t", timestamp=EPOCH, log="late")
    lines = [
        TaskLine(task_id="t", timestamp=EPOCH + timedelta(hours=n), log=str(n)) for n in range(1, 5)
    ]
    async with stored(lines) as logs:
        end = await logs.finding.around(of_t(), Around(before=2, after=0))
        assert [(one.number, one.row.log) for one in end.lines] == [(3, "3"), (4, "4")]
        await logs.append([late])
        new = await logs.finding.since(of_t(), end.newest_id, 10)
        assert [(one.number, one.row.log) for one in new.lines] == [(1, "late")]
        assert new.total == 5
        assert not (await logs.finding.since(of_t(), new.newest_id, 10)).lines
        with pytest.raises(NotFound):
            await logs.finding.around(of_t(), Around(id=99, before=0, after=0))


async def test_a_deleted_log_has_no_lines_and_counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("master.logs.ingest.DELETE_ROWS", 2)
    monkeypatch.setattr("master.logs.store.DELETE_ROWS", 2)
    lines = [
        TaskLine(task_id="t", timestamp=EPOCH + timedelta(minutes=n), log="x") for n in range(5)
    ]
    async with stored(lines) as logs:
        assert await logs.delete(["t"]) == 5
        assert (await logs.finding.histogram("t", 10)).total == 0
        await logs.append(lines[:1])
        assert (await logs.finding.histogram("t", 10)).total == 1


async def test_a_search_that_nobody_wants_any_more_reads_no_other_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("master.logs.finding.TEXT_LINES", 2)
    lines = [TaskLine(task_id="t", timestamp=EPOCH, log="x")] * 20
    looked = 0
    of_next = searching.Pieces.next

    def counting(*args: object, **named: object) -> object:
        nonlocal looked
        looked += 1
        return of_next(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(searching.Pieces, "next", counting)
    async with stored(lines) as logs:
        steps = logs.finding.search(of_t(search_text="x"), MINUTE, limit=100)
        await anext(steps)
        step = await anext(steps)
        assert (step.looked_at, step.total, len(step.hits)) == (2, 20, 2)
        await steps.aclose()
        assert looked == 1


async def test_an_expression_that_is_none_is_refused_before_anything_is_read() -> None:
    async with stored([]) as logs:
        with pytest.raises(InvalidArgument, match="no regular expression"):
            await searched(logs, of_t(search_text="(", regex=True), 1)


def test_lines_that_stand_together_are_looked_at_in_slices_that_end_with_a_line() -> None:
    text = ("\n".join(["x" * 50] * 200_000) + "\nneedle").encode()
    pattern, at, slices = Pattern("needle$"), 0, 0
    while not (seen := glance(pattern, text, at)).may_match:
        at, slices = seen.to, slices + 1
        assert at <= len(text)
        assert text[at - 1 : at] == b"\n"
    assert text[at:].endswith(b"needle")
