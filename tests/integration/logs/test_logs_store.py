"""The log store on both databases: each line once, in order, found by every filter, followed without polling."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent_bootstrap.protocol import LogBatch, LogEntry
from master.logs.regex_filter import USER_CPU_S, RegexFilter, SearchesThrottled
from master.logs.rows import LogQuery, LogRow, TaskLine
from master.logs.store import LogStore
from tests.stores import leading_store, running
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument

START = datetime(2026, 1, 1, tzinfo=UTC)
SLOW, SLOW_LINE = "(a?){0,50}(a|aa|aaa)*" * 20 + "b", "aab" * 10
"""An expression, and a line that takes milliseconds of it."""


@pytest.fixture
async def logs(db_url: str) -> AsyncIterator[LogStore]:
    async with running(await LogStore.open(db_url)) as opened:
        yield opened


def batch(first: int, next_: int, *lines: str, container: str = "c1", task: str = "t") -> LogBatch:
    """Its offsets may be short for its lines: what agents may send is checked before."""
    return LogBatch.model_construct(
        container_id=container,
        allocation_id=f"{task}.1",
        task_id=task,
        agent_id="agent",
        first_offset=first,
        next_offset=next_,
        entries=tuple(LogEntry(timestamp=START, stdtype="stdout", log=line) for line in lines),
    )


def posted(*lines: str, task: str = "t", at: float = 0) -> list[TaskLine]:
    time = START + timedelta(seconds=at)
    return [TaskLine(task_id=task, timestamp=time, log=line, source="task") for line in lines]


async def lines_of(logs: LogStore, **query: Any) -> list[str]:
    return [row.log for row in await logs.query(LogQuery(**({"task_ids": ("t",)} | query)))]


async def test_a_batch_sent_again_is_stored_once(logs: LogStore) -> None:
    assert await logs.next_offset("c1") == 0
    for _ in range(2):
        assert await logs.ingest(batch(0, 10, "a", "b")) == 10
    assert await logs.ingest(batch(10, 15, "c")) == 15
    assert await lines_of(logs) == ["a", "b", "c"]
    assert await logs.next_offset("c1") == 15


@pytest.mark.parametrize(("first", "next_"), [(5, 12), (12, 20), (0, 10), (0, 5)])
async def test_a_batch_that_does_not_continue_changes_nothing_and_says_where_to_go_on(
    logs: LogStore, first: int, next_: int
) -> None:
    await logs.ingest(batch(0, 10, "a"))
    assert await logs.ingest(batch(first, next_, "x")) == 10
    assert await lines_of(logs) == ["a"]


async def test_batches_of_many_containers_at_once_all_arrive_in_order(logs: LogStore) -> None:
    async def ship(container: str) -> None:
        offset = 0
        while offset < 40:
            send = batch(offset, offset + 4, f"{container} {offset}", container=container)
            again = send if offset % 8 else batch(offset, offset + 4, "x", container=container)
            offset, _ = await asyncio.gather(logs.ingest(send), logs.ingest(again))

    containers = [f"c{n}" for n in range(10)]
    await asyncio.gather(*map(ship, containers))
    for container in containers:
        expected = [f"{container} {offset}" for offset in range(0, 40, 4)]
        assert await lines_of(logs, container_ids=(container,)) == expected


async def test_offsets_and_lines_survive_a_restart(db_url: str) -> None:
    async with running(await LogStore.open(db_url)) as logs:
        await logs.ingest(batch(0, 10, "a"))
    async with running(await LogStore.open(db_url)) as logs:
        assert await logs.ingest(batch(0, 10, "a")) == 10
        assert await logs.ingest(batch(10, 20, "b")) == 20
        rows = await logs.query(LogQuery(task_ids=("t",)))
        assert [(row.id, row.log) for row in rows] == [(1, "a"), (2, "b")]


async def test_a_row_has_everything_its_sender_said(logs: LogStore) -> None:
    entry = TaskLine(
        task_id="t",
        timestamp=START,
        log="text\n",
        allocation_id="t.1",
        agent_id="agent",
        container_id="c",
        rank_id=2,
        level="WARNING",
        stdtype="stderr",
        source="master",
    )
    await logs.append([entry, TaskLine(task_id="t", timestamp=START, log="a\0b\ud800")])
    full, bare = await logs.query(LogQuery(task_ids=("t",)))
    for field in fields(TaskLine):
        expected = "text" if field.name == "log" else getattr(entry, field.name)
        assert getattr(full, field.name) == expected
    assert bare.log.startswith("a\0b")
    assert (bare.rank_id, bare.level, bare.container_id) == (None, None, None)


def random_logs(rng: random.Random) -> list[TaskLine]:
    return [
        TaskLine(
            task_id=rng.choice(["t", "u", "v"]),
            timestamp=START + timedelta(seconds=rng.randrange(10)),
            log=rng.choice(["Loss 1.5", "loss 2", "100% done", "a_b", "ärger", ""]) + str(n % 7),
            allocation_id=rng.choice(["1", "2", None]),
            agent_id=rng.choice(["g", "h", None]),
            container_id=rng.choice(["c", "d", None]),
            rank_id=rng.choice([0, 1, None]),
            level=rng.choice(["INFO", "ERROR", None]),
            stdtype=rng.choice(["stdout", "stderr"]),
            source=rng.choice(["task", "master"]),
        )
        for n in range(200)
    ]


QUERIES = [
    LogQuery(task_ids=()),
    LogQuery(task_ids=("t",)),
    LogQuery(task_ids=("t",), descending=True),
    LogQuery(task_ids=("u", "t")),
    LogQuery(task_ids=("u", "t"), descending=True, limit=80),
    LogQuery(task_ids=("t", "u"), limit=7),
    LogQuery(task_ids=("t",), limit=10_000),
    LogQuery(task_ids=("t", "u"), allocation_ids=("1",), agent_ids=("g", "h")),
    LogQuery(task_ids=("t",), container_ids=("c", "d"), levels=("ERROR",)),
    LogQuery(task_ids=("t",), stdtypes=("stderr",), sources=("master", "agent")),
    LogQuery(task_ids=("t",), rank_ids=(-1,)),
    LogQuery(task_ids=("t",), rank_ids=(-1, 1)),
    LogQuery(task_ids=("t",), rank_ids=(0,)),
    LogQuery(
        task_ids=("t",), after=START + timedelta(seconds=3), before=START + timedelta(seconds=6)
    ),
    LogQuery(task_ids=("t",), search_text="Loss"),
    LogQuery(task_ids=("t",), search_text="%"),
    LogQuery(task_ids=("t",), search_text="_"),
    LogQuery(task_ids=("t",), search_text="är"),
    LogQuery(task_ids=("t",), search_text="^[Ll]oss (1|2)", regex=True, descending=True),
    LogQuery(task_ids=("t", "u"), search_text=r"\d{2}$", regex=True, limit=5),
    LogQuery(task_ids=("t",), search_text="", regex=True, limit=5),
]


def by_hand(query: LogQuery, rows: Sequence[LogRow]) -> list[int]:
    """The same, in plain Python."""

    def matches(row: LogRow) -> bool:
        found = (
            re.search(query.search_text, row.log) if query.regex else query.search_text in row.log
        )
        return bool(
            all(
                not wanted or value in wanted
                for value, wanted in (
                    (row.allocation_id, query.allocation_ids),
                    (row.agent_id, query.agent_ids),
                    (row.container_id, query.container_ids),
                    (row.level, query.levels),
                    (row.stdtype, query.stdtypes),
                    (row.source, query.sources),
                    (-1 if row.rank_id is None else row.rank_id, query.rank_ids),
                )
            )
            and (query.after is None or row.timestamp > query.after)
            and (query.before is None or row.timestamp <= query.before)
            and found is not None
            and found is not False
        )

    tasks = query.task_ids
    kept = [row for row in rows if row.task_id in tasks and matches(row)]
    kept.sort(key=lambda row: (tasks.index(row.task_id), row.timestamp, row.id))
    if query.descending:
        kept.reverse()
    return [row.id for row in kept][: query.limit or None]


async def test_every_filter_does_what_it_says(
    logs: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await logs.append(random_logs(random.Random(7)))
    stored = await logs.query(LogQuery(task_ids=("t", "u", "v")))
    assert len(stored) == 200
    for page_rows in (1_000, 3):
        monkeypatch.setattr("master.logs.store.PAGE_ROWS", page_rows)
        for query in QUERIES:
            found = [row.id for row in await logs.query(query)]
            assert found == by_hand(query, stored), query


async def test_bad_queries_are_refused(logs: LogStore) -> None:
    with pytest.raises(InvalidArgument, match="limit"):
        await logs.query(LogQuery(task_ids=("t",), limit=-1))
    with pytest.raises(InvalidArgument, match="regular expression"):
        await logs.query(LogQuery(task_ids=("t",), search_text="(", regex=True))
    with pytest.raises(InvalidArgument, match="limit"):
        await anext(logs.follow(LogQuery(task_ids=("t",), limit=1)))


@pytest.mark.parametrize("expression", ["^(a+)+$", "(a|a)*b", "(a*)*c", "(.*a){20}b"])
async def test_no_expression_takes_for_ever(logs: LogStore, expression: str) -> None:
    await logs.append(posted("a" * 10_000 + "!", "fine"))
    assert await lines_of(logs, search_text=expression, regex=True) == []
    assert await lines_of(logs, search_text="^f", regex=True) == ["fine"]


async def test_a_search_that_takes_too_long_is_given_up(logs: LogStore) -> None:
    logs._regex = RegexFilter(search_cpu_s=-1)
    await logs.append(posted("a"))
    with pytest.raises(InvalidArgument, match="this search has used up its -1 seconds of CPU time"):
        await lines_of(logs, search_text="a", regex=True)


async def test_a_search_is_given_up_where_its_cpu_time_is_used_up(logs: LogStore) -> None:
    logs._regex = RegexFilter(search_cpu_s=0.05)
    await logs.append(posted(*[SLOW_LINE] * 1_000))
    with pytest.raises(InvalidArgument, match=r"used up its 0\.05 seconds") as refused:
        await lines_of(logs, search_text=SLOW, regex=True, by=1)
    looked_at = re.search(r"after (\d+) lines", str(refused.value))
    assert looked_at is not None
    assert 0 < int(looked_at[1]) < 1_000
    assert await lines_of(logs, search_text="^a{3}", regex=True, by=1) == []


async def test_a_user_of_many_slow_searches_keeps_nobody_waiting(logs: LogStore) -> None:
    await logs.append(posted(*[SLOW_LINE] * 10))
    over: list[int] = []

    async def search(user: int, text: str, expected: int) -> None:
        found = await lines_of(logs, search_text=text, regex=True, by=user)
        assert len(found) == expected
        over.append(user)

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(search(1, SLOW, 10))
        await asyncio.sleep(0)
        await group.create_task(search(2, "^a+b", 10))
        before = over.count(1)
    assert before <= 5
    assert over.count(1) == 20


async def test_a_user_who_has_searched_for_long_waits_while_others_search(logs: LogStore) -> None:
    await logs.append(posted("a"))
    assert await lines_of(logs, search_text="a", regex=True, by=1) == ["a"]
    logs._regex._spend(1, 2 * USER_CPU_S)
    with pytest.raises(
        SearchesThrottled, match=r"your searches have used up .* try again in \d+ s"
    ):
        await lines_of(logs, search_text="a", regex=True, by=1)
    assert await lines_of(logs, search_text="b", regex=True, by=2) == []


async def test_a_match_that_would_take_too_long_is_not_begun(logs: LogStore) -> None:
    """Nothing can stop it: this one takes half a minute."""
    slow = "(a?){0,50}(a|aa|aaa)*" * 45 + "b"
    await logs.append(posted("a" * 65_000))
    with pytest.raises(InvalidArgument, match="too large for a line of 65000 bytes"):
        await lines_of(logs, search_text=slow, regex=True)
    assert await lines_of(logs, search_text="a{100}$", regex=True) == ["a" * 65_000]


async def test_a_follower_gets_each_line_once(logs: LogStore) -> None:
    await logs.append(posted("old 1", "old 2"))
    ended, seen = asyncio.Event(), list[str]()

    async def follow() -> None:
        query = LogQuery(task_ids=("t",))
        async with aclosing(logs.follow(query, until=ended, grace_s=0)) as pages:
            async for page in pages:
                seen.extend(row.log for row in page)

    async with asyncio.TaskGroup() as group:
        group.create_task(follow())
        for n in range(100):
            await logs.append(posted(f"new {n}", at=-n))
            await logs.append(posted("not ours", task="other"))
        ended.set()
    assert sorted(seen) == sorted(["old 1", "old 2", *(f"new {n}" for n in range(100))])
    assert len(logs._followers) == 0


async def test_lines_that_come_while_a_follower_begins_are_read_once(
    logs: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = logs._ids_until_now

    async def busy() -> tuple[int, int]:
        await logs.append(posted("before the look"))
        ids = await real()
        await logs.append(posted("after the look"))
        return ids

    monkeypatch.setattr(logs, "_ids_until_now", busy)
    ended = asyncio.Event()
    ended.set()
    follow = logs.follow(LogQuery(task_ids=("t",)), until=ended, grace_s=0)
    seen = [row.log async for page in follow for row in page]
    assert seen == ["before the look", "after the look"]


async def test_a_follower_waits_for_lines_and_keeps_its_filters(logs: LogStore) -> None:
    query = LogQuery(task_ids=("t", "u"), search_text="keep", regex=True)
    async with aclosing(logs.follow(query)) as pages:
        first = asyncio.ensure_future(anext(pages))
        await logs.append(posted("drop"))
        await logs.append(posted("keep 1", "drop", task="u"))
        assert [row.log for row in await first] == ["keep 1"]
        await logs.append(posted("keep 2"))
        assert [row.log for row in await anext(pages)] == ["keep 2"]


async def test_lines_of_a_cancelled_sender_reach_followers(
    logs: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, real = asyncio.Event(), logs._database.write

    async def write(work: Any) -> Any:
        begun.set()
        return await real(work)

    async with aclosing(logs.follow(LogQuery(task_ids=("t",)))) as pages:
        first = asyncio.ensure_future(anext(pages))
        await asyncio.sleep(0)
        monkeypatch.setattr(logs._database, "write", write)
        sender = asyncio.ensure_future(logs.append(posted("a")))
        await begun.wait()
        sender.cancel()
        assert [row.log for row in await first] == ["a"]


async def test_following_an_ended_task_reads_it_and_ends(logs: LogStore) -> None:
    await logs.append(posted("a", "b"))
    ended = asyncio.Event()
    ended.set()
    follow = logs.follow(LogQuery(task_ids=("t",), descending=True), until=ended, grace_s=0)
    assert [row.log async for page in follow for row in page] == ["a", "b"]


async def test_deleting_removes_lines_and_offsets_of_those_tasks_only(
    logs: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("master.logs.ingest", "master.logs.store"):
        monkeypatch.setattr(f"{module}.DELETE_ROWS", 3)
    await logs.ingest(batch(0, 10, *"abcdefgh"))
    await logs.append(posted("other", task="u"))
    assert await logs.delete(["t", "unknown"]) == 8
    assert await lines_of(logs) == []
    assert await lines_of(logs, task_ids=("u",)) == ["other"]
    assert await logs.next_offset("c1") == 0


async def test_ids_are_never_used_twice_while_the_master_lives(logs: LogStore) -> None:
    await logs.append(posted("a"))
    await logs.delete(["t"])
    await logs.append(posted("b"))
    assert [row.id for row in await logs.query(LogQuery(task_ids=("t",)))] == [2]


async def test_state_and_logs_live_in_one_database_without_meeting(
    db_url: str, clock: ManualClock
) -> None:
    async with running(await LogStore.open(db_url)) as logs, leading_store(db_url, clock):
        await logs.append(posted("a"))
        assert await lines_of(logs) == ["a"]


async def test_inline_in_memory() -> None:
    async with running(await LogStore.open("sqlite://", inline=True)) as logs:
        await logs.append(posted("a", "b"))
        assert await lines_of(logs) == ["a", "b"]
