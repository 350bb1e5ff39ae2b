"""Finding one's way in a log of five million lines: its end, line n, its histogram, all hits of a text and a regex.

    python -m benchmarks.bench_log_search

SQLite. The log is that of a task of a day, beside as many lines of others. A word that is in three lines is searched
as a text and by an expression, and a word of every line, whose hits are counted. Then lines are stored while somebody
searches all the time. Budgets: the end 0.5 s, any line 0.3 s, all hits of a rare text 3 s, of an expression 10 s;
of CPU time, which is what the clock says where no other work shares the machine.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from master.logs.rows import EPOCH, LogQuery, TaskLine
from master.logs.searching import Buckets
from master.logs.store import LogStore
from master.logs.windows import Around

LINES, STORED = sized((5_000_000, 100_000), (5_000, 2_000))
AT_ONCE = 1_000
END_S, LINE_S, TEXT_S, REGEX_S = 0.5, 0.3, 3.0, 10.0
TASK = "t"

_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows)"
_LINES = f"""{_NUMBERS}
INSERT INTO log_entry (id, task_id, timestamp, level, rank_id, stdtype, source, log)
SELECT i + 1, CASE WHEN i / 100 % 2 THEN 't' ELSE 'other' END, i * 86400000000 / :rows, 'INFO', i % 4, 'stdout', 'task',
  'epoch 3 of 90, step ' || i || ': loss 0.2512, accuracy 0.7519, 812 images a second'
  || CASE WHEN i IN (150, :rare + 150, 2 * :rare + 150) THEN ' needle' ELSE '' END FROM n"""  # noqa: S608
_COUNTS = """
INSERT INTO log_count (task_id, minute, lines)
SELECT task_id, timestamp / 60000000, count(*) FROM log_entry GROUP BY 1, 2"""


async def fill(folder: Path) -> LogStore:
    """Without Python."""
    url = f"sqlite:///{folder}/windlass.db"
    await (await LogStore.open(url)).close()
    with closing(sqlite3.connect(folder / "logs.db")) as connection, connection:
        rows = 2 * LINES
        connection.execute(_LINES, {"rows": rows, "rare": rows // 600 * 200})
        connection.execute(_COUNTS)
    return await LogStore.open(url)


class Took(NamedTuple):
    cpu_s: float
    clock_s: float


async def timed(work: Awaitable[Any]) -> tuple[Took, Any]:
    clock, cpu = time.perf_counter(), time.process_time()
    result = await work
    return Took(time.process_time() - cpu, time.perf_counter() - clock), result


async def searched(logs: LogStore, text: str, *, regex: bool = False) -> int:
    """How many hits there are."""
    query = LogQuery(task_ids=(TASK,), search_text=text, regex=regex)
    buckets = Buckets(0, 15 * 60_000_000)
    found = 0
    async with aclosing(logs.finding.search(query, buckets, limit=1_000)) as steps:
        async for step in steps:
            found = step.found
    return found


async def store(logs: LogStore) -> float:
    """Lines a second."""
    lines = [TaskLine(task_id="new", timestamp=EPOCH, log="step 1: loss 0.25")] * AT_ONCE
    begun = time.perf_counter()
    await asyncio.gather(*(logs.append(lines) for _ in range(STORED // AT_ONCE)))
    return STORED / (time.perf_counter() - begun)


async def measure(slower: float) -> bool:
    with tempfile.TemporaryDirectory() as name:
        logs = await fill(Path(name))
        writing = asyncio.create_task(logs.run())
        try:
            return await _measure(logs, slower)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await logs.close()


async def _measure(logs: LogStore, slower: float) -> bool:
    one = LogQuery(task_ids=(TASK,))
    end, window = await timed(logs.finding.around(one, Around(before=500, after=0)))
    assert window.total == LINES
    jumps = []
    for part in (0.001, 0.25, 0.5, 0.75, 0.999):
        number = max(1, int(LINES * part))
        took, window = await timed(
            logs.finding.around(one, Around(line=number, before=250, after=250))
        )
        assert number in [line.number for line in window.lines]
        jumps.append(took)
    histogram, _ = await timed(logs.finding.histogram(TASK, 100))
    text, hits = await timed(searched(logs, "needle"))
    regex, matched = await timed(searched(logs, r"step \d+: .*needle$", regex=True))
    assert hits == matched == 3
    common, hits = await timed(searched(logs, "epoch"))
    assert hits == LINES
    print(f"{LINES} lines of a task, beside as many of others")
    rows = (
        ("the end", end, END_S),
        ("line n, the slowest of five", max(jumps), LINE_S),
        ("histogram", histogram, LINE_S),
        ("a rare text, 3 hits", text, TEXT_S),
        ("an expression, 3 hits", regex, REGEX_S),
        ("a text of each line, counted", common, None),
    )
    for name, took, budget in rows:
        said = f", where budgets are for {took.cpu_s / slower:.3f} s, budget {budget} s"
        clock = f"by the clock {took.clock_s:.3f} s"
        print(f"  {name:30} {took.cpu_s:7.3f} s of CPU, {clock}{said if budget else ''}")
    alone = await store(logs)
    searching = asyncio.create_task(_search_on(logs))
    beside = await store(logs)
    searching.cancel()
    await asyncio.gather(searching, return_exceptions=True)
    print(f"  stored: {alone:.0f} lines a second, {beside:.0f} while somebody searches")
    return all(budget is None or took.cpu_s / slower <= budget for _, took, budget in rows)


async def _search_on(logs: LogStore) -> None:
    while True:
        await searched(logs, "needle")


def main() -> int:
    arguments(__doc__).parse_args()
    print_calibration()
    return exit_code(asyncio.run(measure(loop_s() / REFERENCE_S)))


if __name__ == "__main__":
    sys.exit(main())
