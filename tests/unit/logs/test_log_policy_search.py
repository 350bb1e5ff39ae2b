"""Patterns of log policies: what they may cost, and that costly ones keep nobody else waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from master.core.expconf.models.log_policies import LogPolicy
from master.experiments.reports.log_policies import LogPolicySearch, Match
from master.logs.search_turns import Turns

COSTLY = LogPolicy(name="costly", pattern="((a?){0,50}(a|aa|aaa)*){10}b")
"""6 ms for each of the lines below."""
XID = LogPolicy(name="bad GPU", pattern="xid [0-9]+", action="exclude_node")
LINES = ("a" * 1_000,) * 200


@pytest.fixture
async def turns() -> AsyncIterator[Turns]:
    turns = Turns(1, "test")
    yield turns
    await turns.close()


class Searching:
    """The policies of one experiment of one owner, on one node."""

    def __init__(
        self, turns: Turns, *policies: LogPolicy, owner: int = 1, cpu_s: float = 60.0
    ) -> None:
        self.search = LogPolicySearch(policies, cpu_s=cpu_s)
        self.turns, self.owner = turns, owner
        self.said: list[str] = []

    async def find(self, *lines: str, run: int = 1) -> Sequence[Match]:
        return await self.search.find(
            lines, f"1.t.{run}", "node", turns=self.turns, owner=self.owner, say=self.said.append
        )


@pytest.mark.slow
async def test_a_costly_pattern_keeps_no_other_owner_waiting(turns: Turns) -> None:
    served: list[str] = []
    costly, other = Searching(turns, COSTLY), Searching(turns, XID, owner=2)

    async def find(who: str, searching: Searching, *lines: str) -> Sequence[Match]:
        found = await searching.find(*lines)
        served.append(who)
        return found

    async with asyncio.TaskGroup() as group:
        group.create_task(find("costly", costly, *LINES))
        await asyncio.sleep(0)
        got = group.create_task(find("other", other, "fine", "xid 79"))
    assert [match.line for match in got.result()] == ["xid 79"]
    assert served == ["other", "costly"]


async def test_a_costly_policy_is_switched_off_for_its_run_and_told_once(turns: Turns) -> None:
    searching = Searching(turns, COSTLY, XID, cpu_s=0.3)
    (match,) = await searching.find(*LINES, "xid 79")
    assert (match.number, match.line) == (1, "xid 79")
    assert searching.said == [
        'log policy "costly" is switched off for this run: it has used up its 0.3 seconds of CPU time: write a '
        "simpler regular expression"
    ]
    (match,) = await searching.find("aab", "xid 80")
    assert match.line == "xid 80"
    assert len(searching.said) == 1
    found = await searching.find("aab", "xid 81", run=2)
    assert [one.line for one in found] == ["aab", "xid 81"]


async def test_a_line_too_long_for_a_pattern_is_left_out_and_told_once(turns: Turns) -> None:
    searching = Searching(turns, COSTLY)
    assert await searching.find("a" * 20_000) == []
    (match,) = await searching.find("a" * 20_000, "aab")
    assert match.line == "aab"
    (said,) = searching.said
    assert said.startswith('log policy "costly" is not tried on lines as long as 20000 bytes')


async def test_each_line_is_tried_until_one_matches(turns: Turns) -> None:
    searching = Searching(turns, XID)
    for number in range(300):
        assert await searching.find("fine", f"step {number}") == []
    (match,) = await searching.find(*("fine",) * 5_000, "xid 1", "xid 2")
    assert match.line == "xid 1"
    searching.search.note(match, "1.t.1", "node")
    assert await searching.find("xid 3") == []
    assert searching.said == []


async def test_a_pattern_that_is_none_matches_nothing_and_harms_no_other(turns: Turns) -> None:
    broken = LogPolicy(name="old", pattern="x").model_copy(update={"pattern": "("})
    searching = Searching(turns, broken, XID)
    (match,) = await searching.find("(", "xid 4")
    assert match.number == 1
