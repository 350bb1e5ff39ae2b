"""What `log_policies` do with the output of trials, from the line to the next run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from master.allocations.machine import AllocationState
from master.experiments.lifecycle.state import TrialState
from master.experiments.reports import log_policies
from master.logs.rows import LogQuery
from rm_backends.agents.pool import UNDECIDED
from rm_backends.base import Container
from tests.fakes.api_world import SINGLE, ApiWorld
from windlass.base.errors import StoreUnavailable

EXCLUDES = "log_policies: [{pattern: 'xid [0-9]+', action: exclude_node}]\n"
GIVES_UP = "log_policies: [{name: no use, pattern: '^bad data', action: cancel_retries}]\n"
COSTLY = "log_policies: [{name: costly, pattern: '((a?){0,50}(a|aa|aaa)*){10}b'}]\n"
"""6 ms of CPU for each thousand characters."""


def trial_of(world: ApiWorld, experiment: int) -> TrialState:
    live = world.services.experiments.live(experiment)
    assert live is not None
    (trial,) = live.state.trials.values()
    return trial


def container_of(run: AllocationState) -> Container:
    return run.containers[0].container


async def says(world: ApiWorld, run: AllocationState, *lines: str) -> None:
    """As an agent sends it; returns when it is stored."""
    container = container_of(run)
    agent = world.agents[container.agent_id]
    agent.log(container.container_id, *lines)
    await agent.until(lambda: not agent.unacked)


async def shown(world: ApiWorld, trial_id: int) -> dict[str, Any]:
    found: dict[str, Any] = (await world.ok("GET", f"/api/v1/trials/{trial_id}"))["trial"]
    return found


async def told_by_master(world: ApiWorld, run: AllocationState, text: str) -> None:
    """Returns when the task's log has it."""
    query = LogQuery(task_ids=(run.task_id,), sources=("master",))
    async with asyncio.timeout(60):
        async for rows in world.services.logs.follow(query):
            if any(text in row.log for row in rows):
                return


async def test_the_name_of_the_last_policy_that_matched_is_shown(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run = await world.run_of(id_)
    assert (await shown(world, world.trial_id(id_)))["logPolicyMatched"] is None
    await says(world, run, "fine", "torch.cuda: CUDA out of memory. Tried to", "end")
    assert (await shown(world, world.trial_id(id_)))["logPolicyMatched"] == "CUDA OOM"
    await says(world, run, "an uncorrectable ECC error encountered at 0x1")
    assert (await shown(world, world.trial_id(id_)))["logPolicyMatched"] == "ECC Error"


async def test_an_excluded_node_is_not_used_again(world: ApiWorld) -> None:
    for name in ("node-1", "node-2"):
        await world.add_agent(name, slots=1)
    id_ = await world.create(SINGLE + EXCLUDES)
    first = await world.run_of(id_)
    node = container_of(first).agent_id
    await says(world, first, "NVRM: xid 79")
    assert trial_of(world, id_).avoids == (node,)
    text = f'(log "NVRM: xid 79" matched regex xid [0-9]+) therefore will not schedule on {node}'
    await told_by_master(world, first, text)
    await world.finish(first, 1)
    second = await world.run_of(id_)
    assert second.run_id == 2
    assert container_of(second).agent_id != node
    await says(world, second, "NVRM: xid 80")
    await world.finish(second, 1)
    trial = await shown(world, world.trial_id(id_))
    assert sorted(trial["avoids"]) == ["node-1", "node-2"]
    queue = world.services.cluster.queue
    while [entry.reason == UNDECIDED for entry in queue("default")] != [False]:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)
    waits = (await shown(world, world.trial_id(id_)))["waitingReason"]
    assert "without node-1, node-2, which its log policies exclude" in waits


async def test_a_failure_after_a_match_is_final(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create(SINGLE + GIVES_UP)
    run = await world.run_of(id_)
    trial_id = world.trial_id(id_)
    await says(world, run, "one bad data", "bad data in row 7")
    await told_by_master(world, run, "will not be run again after a failure")
    await world.finish(run, 1)
    trial = await shown(world, trial_id)
    assert (trial["state"], trial["restarts"]) == ("STATE_ERROR", 0)
    assert trial["error"].startswith("trial failed and matched logs to a don't retry policy: ")
    assert trial["logPolicyMatched"] == "no use"


async def test_a_policy_that_costs_too_much_is_switched_off_and_the_log_says_so(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_policies, "POLICY_CPU_S", 0.2)
    await world.add_agent(slots=2)
    costly, normal = await world.create(SINGLE + COSTLY), await world.create(SINGLE + GIVES_UP)
    costly_run, normal_run = await world.run_of(costly), await world.run_of(normal)
    async with asyncio.TaskGroup() as group:
        group.create_task(says(world, costly_run, *["a" * 1_000] * 100, "aab"))
        group.create_task(says(world, normal_run, *["fine"] * 100, "bad data"))
    assert (await shown(world, world.trial_id(normal)))["logPolicyMatched"] == "no use"
    await told_by_master(world, costly_run, 'log policy "costly" is switched off for this run')
    await says(world, costly_run, "aab", "CUDA out of memory")
    assert (await shown(world, world.trial_id(costly)))["logPolicyMatched"] == "CUDA OOM"


async def test_lines_that_the_task_posts_count_too(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create(SINGLE + EXCLUDES)
    run = await world.run_of(id_)
    line = {"taskId": run.task_id, "log": "xid 1", "containerId": container_of(run).container_id}
    by_user = {"taskId": run.task_id, "log": "xid 1"}
    await world.ok("POST", "/api/v1/task/logs", {"logs": [by_user]})
    assert trial_of(world, id_).avoids == ()
    await world.ok("POST", "/api/v1/task/logs", {"logs": [line]}, token=world.task_token(run))
    assert trial_of(world, id_).avoids == ("node-1",)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ('{"log_policies": [{"pattern": "xid 7"}]}', False),
        ("x" * 100_000 + "xid 7", False),
        ("\N{SNOWMAN} xid 7 \ud800", True),
    ],
)
async def test_which_lines_are_searched(world: ApiWorld, line: str, counts: bool) -> None:
    """Not those that print the configuration, and of a long one what is stored."""
    await world.add_agent()
    id_ = await world.create(SINGLE + EXCLUDES)
    run = await world.run_of(id_)
    await world.services.log_watch.look(
        [line], allocation_id=run.id, container_id=container_of(run).container_id
    )
    assert trial_of(world, id_).avoids == (("node-1",) if counts else ())


@pytest.mark.slow
@pytest.mark.parametrize(
    "allocation_id", ["", "1", "1.2", "1.2.3", "9.x.1", "a.b.c", "\N{SUPERSCRIPT TWO}.b.c"]
)
async def test_output_of_what_is_no_trial_is_passed_on(world: ApiWorld, allocation_id: str) -> None:
    await world.services.log_watch.look(["xid 7"], allocation_id=allocation_id, container_id="c")


async def test_what_follows_is_committed_before_the_line_is_stored(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that fails is made when the line comes again: neither is lost."""
    await world.add_agent()
    id_ = await world.create(SINGLE + EXCLUDES)
    run = await world.run_of(id_)
    live = world.services.experiments.live(id_)
    assert live is not None
    apply, failures = live.apply, [StoreUnavailable("database or disk is full")]

    async def once(step: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return await apply(step, **options)

    monkeypatch.setattr(live, "apply", once)
    stored = LogQuery(task_ids=(run.task_id,), sources=("task",))
    container = container_of(run)
    with pytest.raises(StoreUnavailable):
        await world.services.log_watch.look(
            ["xid 7"], allocation_id=run.id, container_id=container.container_id
        )
    assert trial_of(world, id_).avoids == ()
    await says(world, run, "xid 7")
    assert trial_of(world, id_).avoids == ("node-1",)
    assert [row.log for row in await world.services.logs.query(stored)] == ["xid 7"]
