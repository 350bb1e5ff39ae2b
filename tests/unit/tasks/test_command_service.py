"""The real service on a real store: what is written before it is said, and what a restart does again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from command_cluster import (
    exit_with,
    grant,
    launch,
    life,
    only,
    run_id,
    start,
    stored,
    wanted,
)
from sqlalchemy import func, select

from agent_bootstrap.protocol import RegistryCredentials
from master.auth.principal import TaskIdentity
from master.core.expconf import ClusterDefaults
from master.core.expconf.kinds import CommandConfig
from master.core.jobs import JobType, SetPlace, SetPriority
from master.core.visibility import EVERYTHING
from master.core.words import three_words
from master.roots.live_roots import QUIET_S
from master.store import tables
from master.store.contexts import ContextFile
from master.store.paging import Page
from master.tasks.interactive_queries import InteractiveFilter, InteractiveQueries
from master.tasks.kinds import KINDS, TaskKind
from master.tasks.state import TaskPhase, TaskState
from rm_backends.base import (
    Lost,
    Refused,
)
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import OWNER, ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    InvalidConfig,
    InvalidState,
    NotFound,
    StoreUnavailable,
    Unsatisfiable,
)

EVERY = (tables.Command, tables.Task, tables.Allocation)


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ScriptedCluster]:
    async with life(tmp_path, clock) as started:
        yield started


async def rows(cluster: ScriptedCluster, *which: Any) -> int:
    found = 0
    for table in which:
        found += await cluster.store.read_one(select(func.count()).select_from(table)) or 0
    return found


async def test_launching_asks_for_slots_once_all_of_it_is_written(
    cluster: ScriptedCluster,
) -> None:
    live = await launch(cluster, resources={"slots": 2, "priority": 9, "max_slots": 1})
    assert cluster.store.commits == 1
    assert cluster.rm.take() == [("request", run_id(live))]
    assert await rows(cluster, *EVERY) == len(EVERY)
    request = cluster.rm.requests[run_id(live)]
    assert (request.slots, request.single_agent, request.preemptible) == (2, True, False)
    assert request.job.max_slots is None, "it would wait for ever"
    assert (request.name, request.job.priority) == (f"Command ({three_words(live.state.id)})", 9)


async def test_a_full_disk_launches_nothing(cluster: ScriptedCluster) -> None:
    cluster.store.full = True
    with pytest.raises(StoreUnavailable):
        await launch(cluster)
    assert cluster.commands.roots.job_roots() == []
    assert cluster.rm.take() == []
    assert await rows(cluster, *EVERY) == 0


async def test_a_launcher_that_goes_away_leaves_a_living_command(cluster: ScriptedCluster) -> None:
    await cluster.cut_after(1, cluster.commands.launch(wanted(), by=ADMIN))
    assert cluster.commands.roots.job_roots() == []
    cluster.store.go_on.set()
    await cluster.rm.until("request")
    assert cluster.rm.take() == [("request", run_id(only(cluster)))]


async def test_what_a_task_is_given(cluster: ScriptedCluster, tmp_path: Path) -> None:
    live = await launch(
        cluster,
        entrypoint=["python3", "-c", "print(1)"],
        environment={"environment_variables": ["A=1", "B"]},
        bind_mounts=[{"host_path": str(tmp_path), "container_path": "here"}],
        work_dir="/home/$DET_USER/$AGENT_USER",
    )
    await grant(cluster, live)
    spec = cluster.rm.specs[run_id(live)]
    env = spec.environment
    assert orjson.loads(env["DET_COMMAND_ENTRYPOINT"]) == ["python3", "-c", "print(1)"]
    assert (env["DET_TASK_TYPE"], env["DET_TASK_ID"]) == ("COMMAND", live.state.id)
    assert env["DET_SESSION_TOKEN"] == cluster.mint.token(run_id(live))
    assert (env["DET_USER"], env["A"], env["B"]) == ("admin", "1", "")
    assert spec.work_dir == env["DET_WORKDIR"] == "/home/admin/$AGENT_USER", "the agent knows"
    assert [bind.target for bind in spec.binds] == ["/home/admin/$AGENT_USER/here"]
    assert spec.entrypoint == ("{python}", "-P", "-m", "windlass.launch")


async def test_the_image_of_a_command_is_pulled_with_its_login(cluster: ScriptedCluster) -> None:
    auth = {"username": "me", "password": "hunter2"}
    live = await start(cluster, environment={"image": "r.example/mine", "registry_auth": auth})
    login = RegistryCredentials(username="me", password="hunter2")
    assert cluster.allocations.registry_login(run_id(live)) == login
    assert cluster.allocations.registry_login("nobody.1") is None


async def test_a_command_from_its_grant_to_its_end(cluster: ScriptedCluster) -> None:
    live = await start(cluster)
    token = cluster.mint.hash(run_id(live))
    assert cluster.allocations.owner_of(token) == TaskIdentity(OWNER, run_id(live), live.state.id)
    ended = asyncio.create_task(live.wait_until(lambda state: state.is_over))
    await exit_with(cluster, live, 3)
    assert (await ended).exit_status == "task failed with exit code 3"
    assert cluster.allocations.owner_of(token) is None
    row = await stored(cluster, live.state.id)
    assert (row.state, row.exit_status) == ("TERMINATED", "task failed with exit code 3")
    assert cluster.commands.roots.job_roots() == []
    await cluster.commands.roots.tick()
    assert cluster.commands.live(live.state.id) is live, "who read its row before can still ask it"
    cluster.clock.advance(QUIET_S)
    await cluster.commands.roots.tick()
    assert cluster.commands.live(live.state.id) is None


async def test_a_command_whose_deadline_fails_does_not_hold_up_the_others(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await launch(cluster), await launch(cluster)
    for live in (first, second):
        await grant(cluster, live)
        await cluster.allocations.handle(Lost(allocation_id=run_id(live), reason="gone"))
    cluster.clock.advance(60)

    async def broken(step: Any) -> TaskState:
        raise Conflict("its row is gone")

    monkeypatch.setattr(first, "apply", broken)
    await cluster.commands.roots.tick()
    assert run_id(second) == f"{second.state.id}.2"
    monkeypatch.undo()
    await cluster.commands.roots.tick()
    assert run_id(first) == f"{first.state.id}.2"


async def test_an_end_that_cannot_be_committed_comes_again(cluster: ScriptedCluster) -> None:
    live = await start(cluster)
    cluster.store.full = True
    with pytest.raises(StoreUnavailable):
        await exit_with(cluster, live, 0)
    assert live.state.phase is TaskPhase.ACTIVE
    cluster.store.full = False
    await exit_with(cluster, live, 0)
    assert live.state.exit_status == "success"


async def test_a_kill_says_who_asked_and_is_repeated_until_it_is_over(
    cluster: ScriptedCluster,
) -> None:
    live = await start(cluster)
    id_ = live.state.id
    cluster.rm.take()
    await cluster.commands.kill(id_, by=replace(ADMIN, name="eve"))
    await cluster.commands.kill(id_, by=replace(ADMIN, name="bob"))
    assert cluster.rm.take() == [("kill", run_id(live)), ("kill", run_id(live))]
    await exit_with(cluster, live, 137)
    await cluster.commands.roots.tick()
    await cluster.commands.kill(id_, by=replace(ADMIN, name="bob"))
    assert (await stored(cluster, id_)).exit_status == "killed by eve"
    with pytest.raises(NotFound):
        await cluster.commands.kill("no-such", by=replace(ADMIN, name="eve"))


async def test_a_kill_that_overtakes_the_grant_gives_the_slots_back(
    cluster: ScriptedCluster,
) -> None:
    live = await launch(cluster)
    run = run_id(live)
    cluster.rm.granted.add(run)
    cluster.rm.take()
    await cluster.commands.kill(live.state.id, by=replace(ADMIN, name="eve"))
    await grant(cluster, live)
    assert cluster.rm.take() == [("withdraw", run), ("kill", run), ("kill", run)]
    assert live.state.is_over


async def test_what_no_site_will_ever_run_ends_with_its_words(cluster: ScriptedCluster) -> None:
    live = await launch(cluster)
    why = "Slurm refuses its job: Invalid qos (give one of yours with --qos)"
    await cluster.allocations.handle(Refused(allocation_id=run_id(live), reason=why))
    assert live.state.is_over
    assert live.state.exit_status == f"task failed: {why}"


async def test_what_never_started_is_asked_for_again_after_a_pause(
    cluster: ScriptedCluster, clock: ManualClock
) -> None:
    live = await launch(cluster)
    await grant(cluster, live)
    await cluster.allocations.handle(Lost(allocation_id=run_id(live), reason="agent a is gone"))
    cluster.rm.take()
    await cluster.commands.roots.tick()
    assert cluster.rm.take() == []
    reason = cluster.commands.waiting_reason(live.state)
    assert reason is not None
    assert "agent a is gone" in reason.text
    clock.advance(2)
    await cluster.commands.roots.tick()
    assert cluster.rm.take() == [("request", f"{live.state.id}.2")]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"resources": {"resource_pool": "gpu"}},
            'no pool "gpu" for workspace 1; use one of default, other',
        ),
        ({"resources": [1]}, "resources"),
        ({"entrypoint": []}, "entrypoint"),
        ({"work_dir": "here"}, 'work_dir: must be an absolute path, but is "here"'),
        ({"slots": 2}, "slots"),
    ],
)
async def test_a_config_that_cannot_be_right_is_refused(
    cluster: ScriptedCluster, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidConfig, match="invalid command configuration") as refusal:
        await launch(cluster, **config)
    assert words in refusal.value.message
    assert await rows(cluster, *EVERY) == 0


async def test_a_config_however_large_does_not_hold_up_the_event_loop(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    class Watched(CommandConfig):
        @classmethod
        def defaults(cls, cluster: ClusterDefaults) -> dict[str, Any]:
            threads.append(threading.current_thread())
            return {}

    command = replace(KINDS[JobType.COMMAND], model=Watched)
    monkeypatch.setitem(cast("dict[JobType, TaskKind]", KINDS), JobType.COMMAND, command)
    await launch(cluster)
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_what_could_never_run_is_refused_or_warned_of(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with life(tmp_path / "strict", clock) as cluster:
        cluster.rm.too_small["default"] = "pool default has no agent with 9 slots"
        with pytest.raises(Unsatisfiable, match="9 slots"):
            await launch(cluster, resources={"slots": 9})
        assert await rows(cluster, *EVERY) == 0
    async with life(tmp_path / "patient", clock, launch_error=False) as cluster:
        cluster.rm.too_small["default"] = "pool default has no agent with 9 slots"
        launched = await cluster.commands.launch(wanted(resources={"slots": 9}), by=ADMIN)
        assert launched.warnings == ("LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED",)
        assert cluster.rm.take() == [("request", f"{launched.id}.1")]
        cluster.rm.too_small, cluster.rm.too_large = {}, {"default"}
        with pytest.raises(Unsatisfiable, match="request unfulfillable"):
            await launch(cluster, resources={"slots": 9})


async def test_files_and_a_work_dir_of_the_users_own_exclude_each_other(
    cluster: ScriptedCluster,
) -> None:
    files = (ContextFile(path="a.txt", content=b"a"),)
    with pytest.raises(InvalidConfig, match="work_dir: not together with files"):
        await cluster.commands.launch(wanted(files, work_dir="/home"), by=ADMIN)
    outside = (ContextFile(path="../a.txt"),)
    with pytest.raises(InvalidConfig, match=r'path "../a.txt" must stay inside'):
        await cluster.commands.launch(wanted(outside), by=ADMIN)
    launched = await cluster.commands.launch(wanted(files), by=ADMIN)
    assert (await stored(cluster, launched.id)).context


async def test_the_job_of_a_command(cluster: ScriptedCluster) -> None:
    live = await launch(cluster, description="mine", resources={"priority": 5})
    assert cluster.commands.roots.job_root(live.state.job_id) is live
    facts = live.job_facts()
    assert (facts.type, facts.entity_id, facts.name) == (JobType.COMMAND, live.state.id, "mine")
    assert (facts.owner_name, facts.order.priority) == ("admin", 5)
    assert live.waiting_allocations() == (run_id(live),)
    await grant(cluster, live)
    assert live.waiting_allocations() == ()
    await exit_with(cluster, live, 0)
    assert cluster.commands.roots.job_root(live.state.job_id) is None


async def test_a_changed_place_is_told_once_it_is_written(cluster: ScriptedCluster) -> None:
    live = await launch(cluster)
    await live.change_job(SetPlace(Decimal("5.5"), 7), by=ADMIN)
    (order,) = cluster.rm.orders
    assert (order.position, order.priority) == (Decimal("5.5"), 7)
    cluster.store.full = True
    with pytest.raises(StoreUnavailable):
        await live.change_job(SetPriority(1), by=ADMIN)
    assert live.job_order() == order
    assert cluster.rm.orders == [order]


async def test_a_changed_place_is_told_until_it_is_heard(cluster: ScriptedCluster) -> None:
    live = await launch(cluster)
    cluster.rm.deaf = True
    await cluster.commands.set_priority(live.state.id, 3, by=ADMIN)
    assert cluster.rm.orders == []
    cluster.rm.deaf = False
    await cluster.commands.roots.tick()
    await cluster.commands.roots.tick()
    assert [order.priority for order in cluster.rm.orders] == [3]


async def test_a_priority_that_is_none_is_refused(cluster: ScriptedCluster) -> None:
    live = await start(cluster)
    with pytest.raises(InvalidArgument, match=r"1 .* to 99"):
        await cluster.commands.set_priority(live.state.id, 100, by=ADMIN)
    await exit_with(cluster, live, 0)
    await cluster.commands.roots.tick()
    with pytest.raises(InvalidState, match=r"has already ended \(success\)"):
        await cluster.commands.set_priority(live.state.id, 3, by=ADMIN)
    with pytest.raises(NotFound):
        await cluster.commands.set_priority("no-such", 3, by=ADMIN)


async def test_lists_show_commands_that_are_over_too(
    cluster: ScriptedCluster, clock: ManualClock
) -> None:
    ids = []
    for name in ("c", "a", "b"):
        clock.advance(1)
        live = await start(cluster, description=name)
        await exit_with(cluster, live, 0)
        ids.append(live.state.id)
    queries = InteractiveQueries(cluster.store)

    async def listed(where: InteractiveFilter | None = None, **page: Any) -> list[str]:
        found = await queries.tasks(
            JobType.COMMAND, where or InteractiveFilter(), Page(**page), EVERYTHING
        )
        return [row.task.id for row in found.rows]

    assert await listed(sort="start_time") == ids
    assert await listed(sort="start_time", descending=True) == ids[::-1]
    assert await listed(sort="description") == [ids[1], ids[2], ids[0]]
    assert await listed(sort="id", offset=1, limit=1) == sorted(ids)[1:2]
    assert await listed(InteractiveFilter(users=("admin",)), sort="start_time") == ids
    assert await listed(InteractiveFilter(users=("eve",))) == []
    assert (
        await listed(InteractiveFilter(users=("eve",), user_ids=(OWNER,)), sort="start_time") == ids
    )
    assert await listed(InteractiveFilter(workspace_id=2)) == []
