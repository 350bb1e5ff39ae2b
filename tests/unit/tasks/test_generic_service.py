"""Trees of generic tasks on a real store: what is done to all of a tree, and what a restart finds of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from command_cluster import exit_with, grant, life, report, run_id

from master.core.visibility import EVERYTHING, Visibility
from master.store.contexts import ContextFile
from master.tasks import machine
from master.tasks.generic import NewGenericTask
from master.tasks.live import LiveTask
from master.tasks.machine import generic_state
from rm_backends.base import ContainerPhase, ReleaseAsked
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument, InvalidConfig, InvalidState, NotFound

FILE = ContextFile(path="run", content=b"true")


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ScriptedCluster]:
    async with life(tmp_path, clock) as started:
        yield started


async def create(
    cluster: ScriptedCluster,
    *,
    config: dict[str, Any] | None = None,
    visible: Visibility = EVERYTHING,
    **asked: Any,
) -> str:
    config = {"entrypoint": ["./run"]} if config is None else config
    new = NewGenericTask(config=config, **asked)
    return (await cluster.generic.create(new, by=ADMIN, visible=visible)).id


def live(cluster: ScriptedCluster, task_id: str) -> LiveTask:
    found = cluster.commands.live(task_id)
    assert found is not None
    return found


async def run(cluster: ScriptedCluster, task_id: str, *, listens: bool = False) -> LiveTask:
    one = live(cluster, task_id)
    await grant(cluster, one)
    await report(cluster, one, ContainerPhase.RUNNING)
    if listens:
        await cluster.allocations.preemption_signal(run_id(one), 0)
    return one


async def states(cluster: ScriptedCluster, *task_ids: str) -> list[str]:
    return [generic_state(await cluster.generic.state(id_, EVERYTHING)) for id_ in task_ids]


async def family(cluster: ScriptedCluster) -> tuple[str, str, str]:
    """Parent, child, grandchild, which run."""
    parent = await create(cluster)
    child = await create(cluster, parent_id=parent)
    grandchild = await create(cluster, parent_id=child)
    for id_ in (parent, child, grandchild):
        await run(cluster, id_)
    cluster.rm.take()
    return parent, child, grandchild


async def test_it_is_asked_to_leave_once_it_listens(cluster: ScriptedCluster) -> None:
    one = await run(
        cluster,
        await create(
            cluster, config={"entrypoint": "x", "preemption_timeout": 5, "resources": {"slots": 2}}
        ),
    )
    request = cluster.rm.requests[run_id(one)]
    assert (request.preemptible, request.single_agent) == (True, True)
    assert request.preemption_timeout_s == 5
    waiting = asyncio.create_task(cluster.allocations.preemption_signal(run_id(one), 60))
    await one.wait_until(
        lambda state: state.allocation is not None and state.allocation.preemptible
    )
    await cluster.generic.pause(one.id, by=ADMIN)
    signal = await waiting
    assert signal is not None
    assert signal.reason == "paused by admin"
    await cluster.allocations.acknowledge_preemption(run_id(one))
    await exit_with(cluster, one, 0)
    assert await states(cluster, one.id) == ["PAUSED"]
    await cluster.generic.unpause(one.id, by=ADMIN)
    assert cluster.rm.take()[-1] == ("request", f"{one.id}.2")


async def test_what_the_scheduler_took_its_slots_from_runs_again(cluster: ScriptedCluster) -> None:
    one = await run(cluster, await create(cluster), listens=True)
    await cluster.allocations.handle(ReleaseAsked(allocation_id=run_id(one), reason="others"))
    await cluster.allocations.acknowledge_preemption(run_id(one))
    await exit_with(cluster, one, 0)
    await cluster.commands.roots.tick()
    assert run_id(one) == f"{one.id}.2"


async def test_a_task_without_pauses_keeps_its_slots(cluster: ScriptedCluster) -> None:
    parent = await run(cluster, await create(cluster, no_pause=True), listens=True)
    assert not cluster.rm.requests[run_id(parent)].preemptible
    with pytest.raises(InvalidState, match="noPause"):
        await cluster.generic.pause(parent.id, by=ADMIN)
    top = await create(cluster)
    stays = await create(cluster, parent_id=top, no_pause=True)
    goes = await create(cluster, parent_id=top)
    await cluster.generic.pause(top, by=ADMIN)
    assert await states(cluster, top, stays, goes) == ["PAUSED", "ACTIVE", "PAUSED"]


async def test_a_kill_takes_all_below_it(cluster: ScriptedCluster) -> None:
    parent, child, grandchild = await family(cluster)
    await cluster.generic.kill(child, from_root=False, by=ADMIN)
    assert [call for call in cluster.rm.take() if call[0] == "kill"] == [
        ("kill", f"{grandchild}.1"),
        ("kill", f"{child}.1"),
    ]
    stopping = "STOPPING_CANCELED"
    assert await states(cluster, parent, child, grandchild) == ["ACTIVE", stopping, stopping]
    for id_ in (child, grandchild):
        await exit_with(cluster, live(cluster, id_), 137)
    assert await states(cluster, child, grandchild) == ["CANCELED", "CANCELED"]
    with pytest.raises(InvalidState, match=f"cannot cancel task {child} as it is in state CANCEL"):
        await cluster.generic.kill(child, from_root=False, by=ADMIN)
    await cluster.generic.kill(child, from_root=True, by=ADMIN)
    assert await states(cluster, parent) == [stopping]


async def test_a_kill_from_the_root_climbs_first(cluster: ScriptedCluster) -> None:
    ids = await family(cluster)
    other = await create(cluster)
    await cluster.generic.kill(ids[2], from_root=True, by=ADMIN)
    assert await states(cluster, *ids, other) == [*["STOPPING_CANCELED"] * 3, "ACTIVE"]
    assert await cluster.generic.root_of(ids[2]) == ids[0]
    with pytest.raises(InvalidState, match="parentId"):
        await create(cluster, parent_id=ids[1])


async def test_what_completed_is_not_killed(cluster: ScriptedCluster) -> None:
    one = await run(cluster, await create(cluster))
    await exit_with(cluster, one, 0)
    for from_root in (False, True):
        with pytest.raises(InvalidState, match="as it is in state COMPLETED"):
            await cluster.generic.kill(one.id, from_root=from_root, by=ADMIN)
    with pytest.raises(InvalidState, match="COMPLETED"):
        await cluster.generic.pause(one.id, by=ADMIN)
    failed = await run(cluster, await create(cluster))
    await exit_with(cluster, failed, 3)
    await cluster.generic.kill(failed.id, from_root=False, by=ADMIN)
    assert await states(cluster, failed.id) == ["ERROR"]


async def test_a_fork_replaces_whole_keys_and_takes_the_files(cluster: ScriptedCluster) -> None:
    resources = {"slots": 2, "priority": 7}
    source = await create(
        cluster, config={"entrypoint": ["a"], "resources": resources}, files=(FILE,)
    )
    fork = await create(cluster, config={"resources": {"slots": 1}}, forked_from=source)
    state = live(cluster, fork).state
    assert state.config.entrypoint == ("a",)
    assert (state.config.resources.slots, state.config.resources.priority) == (1, 42)
    assert state.context == live(cluster, source).state.context is not None
    assert state.details["submitted"] == {"entrypoint": ["a"], "resources": {"slots": 1}}
    own = await create(cluster, forked_from=source, files=(ContextFile(path="x", content=b"1"),))
    assert live(cluster, own).state.context not in (None, state.context)


async def test_a_fork_by_another_user_has_no_secrets_of_the_first(cluster: ScriptedCluster) -> None:
    config = {"entrypoint": ["a"], "environment": {"environment_variables": ["KEY=hunter2"]}}
    source = await create(cluster, config=config)
    stranger = Visibility(secrets_of=ADMIN.user_id + 1)
    with pytest.raises(InvalidConfig, match=r"\*\*\*\*") as refused:
        await create(cluster, config={}, forked_from=source, visible=stranger)
    assert "hunter2" not in str(refused.value)
    own = await create(cluster, config={"environment": {}}, forked_from=source, visible=stranger)
    assert "hunter2" not in str(live(cluster, own).state)


async def test_files_of_a_parent_are_inherited(cluster: ScriptedCluster) -> None:
    parent = await create(cluster, files=(FILE,))
    child = await create(cluster, parent_id=parent, inherit_context=True)
    without = await create(cluster, parent_id=parent)
    assert live(cluster, child).state.context == live(cluster, parent).state.context
    assert live(cluster, without).state.context is None
    with pytest.raises(InvalidConfig, match="work_dir"):
        await create(
            cluster,
            config={"entrypoint": "x", "work_dir": "/tmp"},
            parent_id=parent,
            inherit_context=True,
        )


async def test_every_problem_of_a_request_is_told_at_once(cluster: ScriptedCluster) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await cluster.generic.create(
            NewGenericTask(config=None, files=(FILE,), inherit_context=True),
            by=ADMIN,
            visible=EVERYTHING,
        )
    problems = str(refused.value).split("; ")
    assert [line.partition(":")[0] for line in problems] == [
        "No config file nor forked task provided",
        "inheritContext",
        "inheritContext",
    ]


@pytest.mark.parametrize("asked", ["forked_from", "parent_id"])
async def test_only_generic_tasks_are_forked_and_have_children(
    cluster: ScriptedCluster, asked: str
) -> None:
    with pytest.raises(NotFound, match=r"nobody.*make sure task is of type GENERIC"):
        await create(cluster, **dict[str, Any]({asked: "nobody"}))


async def test_a_restart_finds_trees_and_pauses_as_they_were(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with life(tmp_path, clock) as cluster:
        parent, child, grandchild = await family(cluster)
        await cluster.allocations.preemption_signal(f"{child}.1", 0)
        await cluster.generic.pause(child, by=ADMIN)
        await exit_with(cluster, live(cluster, grandchild), 137)
        before = [live(cluster, id_).state for id_ in (parent, child, grandchild)]
        assert await states(cluster, parent, child, grandchild) == [
            "ACTIVE",
            "STOPPING_PAUSED",
            "PAUSED",
        ]
    async with life(tmp_path, clock) as cluster:
        assert [live(cluster, id_).state for id_ in (parent, child, grandchild)] == before
        assert cluster.rm.take() == [("release", f"{child}.1")], "it is asked again"
        signal = await cluster.allocations.preemption_signal(f"{child}.1", 0)
        assert signal is not None
        await cluster.allocations.acknowledge_preemption(f"{child}.1")
        await exit_with(cluster, live(cluster, child), 0)
        assert await states(cluster, child) == ["PAUSED"]
        await cluster.generic.unpause(child, by=ADMIN)
        assert cluster.rm.take()[-1] == ("request", f"{child}.2")


@pytest.mark.slow
@pytest.mark.parametrize("commit", [1, 2, 3])
@pytest.mark.parametrize("what", ["kill", "pause"])
async def test_a_crash_within_a_tree_can_be_repeated(
    tmp_path: Path, clock: ManualClock, what: str, commit: int
) -> None:
    """Each task of the tree is a commit of its own: the next master's user asks again, and all of it is done."""

    def asked(cluster: ScriptedCluster, top: str) -> Any:
        if what == "pause":
            return cluster.generic.pause(top, by=ADMIN)
        return cluster.generic.kill(top, from_root=False, by=ADMIN)

    async with life(tmp_path, clock) as cluster:
        ids = await family(cluster)
        await cluster.cut_after(commit, asked(cluster, ids[0]))
    async with life(tmp_path, clock) as cluster:
        seen = await states(cluster, *ids)
        assert seen.count("ACTIVE") == 3 - commit
        if commit < 3:
            assert seen[0] == "ACTIVE", "so that it can be asked again"
            await asked(cluster, ids[0])
        for id_ in ids:
            assert ("kill", f"{id_}.1") in cluster.rm.calls
            await exit_with(cluster, live(cluster, id_), 137)
        assert await states(cluster, *ids) == [{"kill": "CANCELED", "pause": "PAUSED"}[what]] * 3


async def test_a_child_that_a_crash_saved_from_the_kill_of_its_tree_goes_too(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with life(tmp_path, clock) as cluster:
        parent = await create(cluster)
        await cluster.cut_after(1, create(cluster, parent_id=parent))
        # Its parent is killed while the first answer about the child is on its way.
        await live(cluster, parent).apply(lambda state, now: machine.kill(state, now, "by me"))
    async with life(tmp_path, clock) as cluster:
        assert list(cluster.commands.roots.job_roots()) == []
