"""Lines that webhooks are called for: what an expression may cost all tasks together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from master.experiments.reports import log_policies, log_triggers
from master.experiments.reports.log_triggers import LogTriggers
from master.logs.search_turns import Turns
from master.webhooks.service import NewTrigger
from tests.fakes.hooks import ANN, SOURCE, Hooks

COSTLY = NewTrigger("TASK_LOG", {"regex": "((a?){0,50}(a|aa|aaa)*){10}b"})
"""6 ms for each of the lines below."""
XID = NewTrigger("TASK_LOG", {"regex": "xid [0-9]+"})
LINES = ("a" * 1_000,) * 10
URL = "http://127.0.0.1:9/hook"


class Tasks:
    """Their output, and what is said in the log of each."""

    def __init__(self, hooks: Hooks, turns: Turns) -> None:
        self.triggers = LogTriggers(hooks.registry)
        self._turns = turns
        self.said: dict[str, list[str]] = {}

    async def write(self, task: str, *lines: str) -> None:
        await self.triggers.look(
            lines,
            task_id=task,
            node="node-1",
            source=SOURCE,
            experiment=None,
            turns=self._turns,
            say=self.said.setdefault(task, []).append,
        )


@pytest.fixture
async def tasks(hooks: Hooks) -> AsyncIterator[Tasks]:
    turns = Turns(1, "test")
    yield Tasks(hooks, turns)
    await turns.close()


async def test_a_catastrophic_pattern_is_switched_off_for_all_tasks(
    hooks: Hooks, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_triggers, "TRIGGER_CPU_S", 0.02)
    monkeypatch.setattr(log_triggers, "TRIGGER_CPU_PER_S", 0.0)
    await hooks.create(URL, COSTLY, XID)
    await tasks.write("first", *LINES)
    for number in range(50):
        await tasks.write(f"task-{number}", *LINES, f"xid {number}")
    assert len(tasks.said) == 51
    for said in tasks.said.values():
        (line,) = said
        assert line.startswith(
            'webhook "chat" is switched off for this run: it has used up its 0.02'
        )
    found = [row.facts["task_log"] for row in await hooks.events()]
    assert [one["triggering_log"] for one in found] == [f"xid {number}" for number in range(50)]


async def test_a_budget_comes_back(
    hooks: Hooks, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_triggers, "TRIGGER_CPU_S", 0.02)
    monkeypatch.setattr(log_triggers, "TRIGGER_CPU_PER_S", 0.0)
    await hooks.create(URL, COSTLY)
    await tasks.write("first", *LINES)
    (budget,) = tasks.triggers._budgets.values()
    budget.spend(-1.0, asyncio.get_running_loop().time())
    await tasks.write("first", "aab")
    await tasks.write("second", "aab")
    (row,) = await hooks.events()
    assert row.facts["task_log"]["task_id"] == "second"


async def test_what_was_told_is_not_told_again_when_its_task_is_forgotten(
    hooks: Hooks, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_policies, "REMEMBERED", 4)
    await hooks.create(URL, XID)
    for number in range(40):
        await tasks.write(f"task-{number}", "xid 1")
    await tasks.write("task-0", "xid 2")
    assert len(await hooks.events()) == 40
    (search,) = tasks.triggers._searches.values()
    assert len(search._runs) < 20


async def test_tasks_that_no_webhook_hears_leave_the_others_alone(
    hooks: Hooks, tasks: Tasks
) -> None:
    id_ = await hooks.create(URL, XID)
    await tasks.write("first", "xid 1")
    assert len(tasks.triggers._searches) == 1
    await hooks.service.delete(id_, by=ANN)
    await tasks.write("first", "xid 1")
    await hooks.create(URL, XID)
    await tasks.write("first", "xid 1")
    assert len(tasks.triggers._searches) == 1, "nothing is kept of what was deleted"
    assert len(await hooks.events()) == 1
