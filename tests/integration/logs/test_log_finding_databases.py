"""Windows, counts and searches on both databases, as `tests/unit/logs/test_log_finding.py` has them for one."""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import aclosing
from datetime import timedelta

import pytest

from master.logs.rows import EPOCH, LogQuery, TaskLine
from master.logs.searching import Buckets
from master.logs.store import LogStore
from master.logs.windows import Around
from tests.stores import running

HOUR = Buckets(0, 3_600_000_000)


@pytest.mark.parametrize("regex", [False, True])
async def test_finding_on_both_databases(
    db_url: str, regex: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("master.logs.finding.TEXT_LINES", 70)
    monkeypatch.setattr("master.logs.finding.REGEX_LINES", 30)
    chosen = random.Random(7)
    lines = [
        TaskLine(
            task_id=chosen.choice("tu"),
            timestamp=EPOCH + timedelta(seconds=chosen.randrange(-7_200, 40_000)),
            log=f"step {chosen.randrange(50)} %_\\ é\0",
            level=chosen.choice(["INFO", "ERROR"]),
        )
        for _ in range(1_000)
    ]
    text = r"step 4\d? .*\x00$" if regex else "step 4 %_\\ é\0"
    wanted = re.compile(text) if regex else re.compile(re.escape(text))
    query = LogQuery(task_ids=("t",), search_text=text, regex=regex, levels=("ERROR",))
    async with running(await LogStore.open(db_url)) as logs:
        for start in range(0, len(lines), 90):
            await logs.append(lines[start : start + 90])
        rows = await logs.query(LogQuery(task_ids=("t",)))
        async with aclosing(logs.finding.search(query, HOUR, limit=5)) as steps:
            found = [step async for step in steps]
        expected = [
            (number, row)
            for number, row in enumerate(rows, 1)
            if row.level == "ERROR" and wanted.search(row.log)
        ]
        assert len(expected) > 5
        assert [(hit.number, hit.row) for step in found for hit in step.hits] == expected[:5]
        counts = sum((step.counts for step in found), Counter[int]())
        assert counts == Counter(
            max(0, (row.timestamp - EPOCH) // timedelta(hours=1)) for _, row in expected
        )
        number, _ = expected[4]
        window = await logs.finding.around(
            LogQuery(task_ids=("t",)), Around(line=number, before=3, after=2)
        )
        assert [(one.number, one.row) for one in window.lines] == [
            *enumerate(rows[number - 4 : number + 2], number - 3)
        ]
        assert window.total == len(rows)
        histogram = await logs.finding.histogram("t", 4)
        assert histogram.total == len(rows)
        first = histogram.start_us(0)
        assert histogram.buckets == Counter(
            (round(row.timestamp.timestamp() * 1e6) - first) // histogram.width_us for row in rows
        )
