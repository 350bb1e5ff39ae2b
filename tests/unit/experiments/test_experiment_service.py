"""The real services on a real store: what is written before it is said, and what a restart does again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import structlog
import structlog.testing
from sqlalchemy import func, select

from master.allocations.machine import AllocationPhase
from master.auth.principal import TaskIdentity
from master.core.jobs import JobType, SetPool
from master.core.searcher.search import Search, SearchState
from master.core.searcher.types import Event, ExitReason
from master.experiments.lifecycle.state import Phase
from master.experiments.reports.metrics import PostedMetrics
from master.store import tables
from master.tasks.service import NewTask
from rm_backends.base import ContainerPhase, FellBack, Lost, Refused, ReleaseAsked
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import Conflict, InvalidArgument, NotFound, StoreUnavailable

SINGLE = """
name: tiny
entrypoint: python3 train.py
searcher: {name: single, metric: loss, smaller_is_better: true}
hyperparameters: {lr: 0.5}
max_restarts: 2
resources: {slots_per_trial: 1}
"""
RUNNING = ContainerPhase.RUNNING

Do: TypeAlias = Callable[[ScriptedCluster], Awaitable[object]]


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ScriptedCluster]:
    async with life(tmp_path, clock) as started:
        yield started


@asynccontextmanager
async def life(folder: Path, clock: ManualClock) -> AsyncIterator[ScriptedCluster]:
    started = await ScriptedCluster.start(folder, clock)
    try:
        yield started
    finally:
        await started.crash()


async def rows(cluster: ScriptedCluster, *which: Any) -> int:
    found = 0
    for table in which:
        found += await cluster.store.read_one(select(func.count()).select_from(table)) or 0
    return found


def report(
    cluster: ScriptedCluster, run_id: int, steps: int = 1, **metrics: float
) -> PostedMetrics:
    return PostedMetrics(
        trial_id=cluster.trial.id,
        run_id=run_id,
        group="validation",
        steps=steps,
        avg=metrics,
        at=cluster.clock.now(),
    )


async def test_creating_asks_for_slots_once_all_of_it_is_written(cluster: ScriptedCluster) -> None:
    await cluster.create(SINGLE)
    assert cluster.store.commits == 1
    assert cluster.rm.take() == [("request", cluster.run.id)]
    every = (tables.Experiment, tables.Trial, tables.Task, tables.Allocation)
    assert await rows(cluster, *every) == len(every)


async def test_a_full_disk_creates_nothing(cluster: ScriptedCluster) -> None:
    cluster.store.full = True
    with pytest.raises(StoreUnavailable):
        await cluster.create(SINGLE)
    assert cluster.experiments.all_live() == ()
    assert cluster.rm.take() == []
    every = (tables.Experiment, tables.Trial, tables.Task, tables.Allocation, tables.SearcherEvent)
    assert await rows(cluster, *every) == 0
    cluster.store.full = False
    await cluster.create(SINGLE)
    assert cluster.rm.take() == [("request", cluster.run.id)]


async def test_a_search_that_fails_at_its_first_step_is_stored_as_failed(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(search: Search, state: SearchState, event: Event) -> Any:
        raise InvalidArgument("no such searcher")

    monkeypatch.setattr(Search, "on", fail)
    live = await cluster.create(SINGLE)
    assert live.state.phase is Phase.ERROR
    (row,) = await cluster.store.read(select(tables.Experiment))
    assert (row.state, row.error) == ("ERROR", "no such searcher")
    assert row.ended_at == live.state.ended_at


async def test_a_creator_that_goes_away_leaves_a_living_experiment(
    cluster: ScriptedCluster,
) -> None:
    await cluster.cut_after(1, cluster.create(SINGLE))
    assert cluster.experiments.all_live() == ()
    cluster.store.go_on.set()
    await cluster.rm.until("request")
    assert cluster.rm.take() == [("request", cluster.run.id)]


async def test_an_event_that_cannot_be_committed_changes_nothing_and_may_come_again(
    cluster: ScriptedCluster,
) -> None:
    await cluster.create(SINGLE)
    cluster.rm.take()
    cluster.store.full = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await cluster.grant()
    assert cluster.run.phase is AllocationPhase.PENDING
    assert cluster.allocations.owner_of(cluster.mint.hash(cluster.run.id)) is None
    assert cluster.rm.take() == []
    cluster.store.full = False
    await cluster.grant()
    assert cluster.rm.take() == [("start", cluster.run.id)]
    assert cluster.run.ports["C10D_PORT"] == 29400


async def test_a_kill_that_overtakes_the_grant_gives_the_slots_back(
    cluster: ScriptedCluster,
) -> None:
    live = await cluster.create(SINGLE)
    run = cluster.run
    cluster.rm.granted.add(run.id)
    cluster.rm.take()
    await cluster.experiments.kill(live.state.id, by=ADMIN)
    await cluster.grant()
    assert cluster.rm.take() == [("withdraw", run.id), ("kill", run.id), ("kill", run.id)]
    assert live.state.phase is Phase.CANCELED


async def test_a_token_dies_with_the_commit_that_ends_its_run(cluster: ScriptedCluster) -> None:
    await cluster.create(SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 2"))
    await cluster.grant(agents=2)
    await cluster.report(ContainerPhase.RUNNING)
    run, token = cluster.run, cluster.mint.hash(cluster.run.id)
    owner = cluster.allocations.owner_of(token)
    assert owner == TaskIdentity(1, run.id, run.task_id, experiment_id=1)
    cluster.rm.kills_may_go.clear()
    lost = Lost(allocation_id=run.id, reason="agent a0 is gone")
    losing = asyncio.create_task(cluster.allocations.handle(lost))
    await cluster.rm.until("kill")
    assert cluster.run.run_id == 2
    assert cluster.allocations.owner_of(token) is None
    cluster.rm.kills_may_go.set()
    await losing


async def test_reports_of_an_earlier_run_are_refused(cluster: ScriptedCluster) -> None:
    await cluster.create(SINGLE)
    await cluster.grant()
    await cluster.reports.metrics(report(cluster, 1, loss=1.0))
    await cluster.exit(1)
    assert cluster.trial.run_id == 2
    with pytest.raises(InvalidArgument, match=r"invalid run id, 1 \(reported\) != 2"):
        await cluster.reports.metrics(report(cluster, 1, steps=2, loss=0.5))
    assert await rows(cluster, tables.Metric) == 1


async def test_what_no_site_will_ever_run_fails_at_once(cluster: ScriptedCluster) -> None:
    """Though restarts are left: they would wait for nothing, too."""
    await cluster.create(SINGLE)
    assert cluster.only.state.settings.max_restarts > 0
    run = cluster.run
    cluster.rm.take()
    why = "Slurm refuses its job: Invalid qos (give one of yours with --qos)"
    with structlog.testing.capture_logs() as logs:
        await cluster.allocations.handle(Refused(allocation_id=run.id, reason=why))
    assert cluster.rm.take() == [("withdraw", run.id)]
    (failed,) = [entry for entry in logs if entry["event"] == "trial failed"]
    assert failed["error"] == why
    (trial,) = cluster.only.state.trials.values()
    assert (trial.phase, trial.restarts, trial.lost_runs) == (Phase.ERROR, 0, 0)
    assert cluster.only.state.phase is Phase.ERROR


@pytest.mark.slow
async def test_losses_are_counted_over_restarts(tmp_path: Path, clock: ManualClock) -> None:
    for life_number in range(11):
        async with life(tmp_path, clock) as cluster:
            if not life_number:
                await cluster.create(SINGLE)
            assert cluster.trial.lost_runs == life_number
            await cluster.grant()
            await cluster.report(RUNNING)
            lost = Lost(allocation_id=cluster.run.id, reason="agent a0 is gone")
            with structlog.testing.capture_logs() as logs:
                await cluster.allocations.handle(lost)
            over = cluster.only.state.phase.is_terminal
    assert over
    told = [(entry["event"], entry.get("state"), entry["error"]) for entry in logs]
    why = (
        "its allocations were lost or preempted 11 times without a new checkpoint: agent a0 is gone"
    )
    assert told == [
        ("trial failed", None, why),
        ("experiment ended", "ERROR", f"every trial of the search failed: {why}"),
    ]


async def test_the_masters_log_tells_of_experiments(cluster: ScriptedCluster) -> None:
    with structlog.testing.capture_logs() as logs:
        live = await cluster.create(SINGLE)
        await cluster.experiments.kill(live.state.id, by=ADMIN)
    assert [(entry["event"], entry["experiment"], entry["log_level"]) for entry in logs] == [
        ("experiment created", live.state.id, "info"),
        ("experiment ended", live.state.id, "info"),
    ]
    assert logs[1]["state"] == "CANCELED"
    assert {entry["by"] for entry in logs} == {"admin"}


async def test_the_masters_log_tells_who_changes_an_experiment(cluster: ScriptedCluster) -> None:
    eve = replace(ADMIN, name="eve", task_id="9.abc")
    live = await cluster.create(SINGLE)
    await cluster.grant()
    with structlog.testing.capture_logs() as logs:
        await cluster.experiments.pause(live.state.id, by=ADMIN)
        await cluster.experiments.activate(live.state.id, by=ADMIN)
        await cluster.experiments.kill_trial(cluster.trial.id, by=eve)
        await cluster.experiments.kill(live.state.id, by=eve)
    assert [(entry["event"], entry["by"]) for entry in logs] == [
        ("experiment paused", "admin"),
        ("experiment activated", "admin"),
        ("trial killed", "eve (task 9.abc)"),
        ("experiment killed", "eve (task 9.abc)"),
    ]


async def test_a_trial_given_up_while_it_waits_ends(cluster: ScriptedCluster) -> None:
    live = await cluster.create(SINGLE)
    await cluster.reports.early_exit(cluster.trial.id, ExitReason.INVALID_HP)
    cluster.clock.advance(11)
    await cluster.experiments.roots.tick()
    assert live.state.phase.is_terminal


@pytest.mark.parametrize("error", [StoreUnavailable("not now"), Conflict("its row is gone")])
async def test_one_experiment_that_cannot_keep_its_deadline_does_not_stop_the_others(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    broken, healthy = await cluster.create(SINGLE), await cluster.create(SINGLE)
    for live in (broken, healthy):
        (trial,) = live.state.trials.values()
        await cluster.reports.early_exit(trial.id, ExitReason.INVALID_HP)

    async def fail(step: object) -> None:
        raise error

    monkeypatch.setattr(broken, "apply", fail)
    cluster.clock.advance(11)
    await cluster.experiments.roots.tick()
    assert not broken.state.phase.is_terminal
    assert healthy.state.phase.is_terminal


async def gang(cluster: ScriptedCluster) -> tuple[str, str, str]:
    """A running gang of two: allocation id and container ids."""
    await cluster.create(SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 2"))
    await cluster.grant(agents=2)
    for rank in range(2):
        await cluster.report(RUNNING, rank=rank)
    first, second = (c.container.container_id for c in cluster.run.containers)
    return cluster.run.id, first, second


async def test_whoever_lost_the_answer_of_a_rendezvous_gets_it_after_a_restart(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with life(tmp_path, clock) as cluster:
        run, first, second = await gang(cluster)
        meet = cluster.allocations.rendezvous
        infos = await asyncio.gather(meet(run, first), meet(run, second))
        assert [info.rank for info in infos] == [0, 1]
    async with life(tmp_path, clock) as cluster, asyncio.timeout(60):
        assert (await cluster.allocations.rendezvous(run, second)).rank == 1
        with pytest.raises(NotFound):
            await cluster.allocations.rendezvous(run, "stranger")


async def test_a_rendezvous_that_could_not_be_written_down_is_when_asked_again(
    cluster: ScriptedCluster,
) -> None:
    run, first, second = await gang(cluster)
    waiting = asyncio.create_task(cluster.allocations.rendezvous(run, first))
    await asyncio.sleep(0)
    cluster.store.full = True
    with pytest.raises(StoreUnavailable):
        await cluster.allocations.rendezvous(run, second)
    cluster.store.full = False
    assert not cluster.run.ready
    assert (await cluster.allocations.rendezvous(run, second)).rank == 1
    assert (await waiting).rank == 0
    assert cluster.run.ready


async def test_whoever_lost_the_answer_of_a_gathering_gets_the_same(
    cluster: ScriptedCluster,
) -> None:
    run, _, _ = await gang(cluster)
    gather = cluster.allocations.all_gather
    answers = await asyncio.gather(gather(run, "u1", 2, "a"), gather(run, "u2", 2, "b"))
    async with asyncio.timeout(60):
        assert await gather(run, "u2", 2, "b") == answers[1]
    again = await asyncio.gather(gather(run, "u3", 2, "c"), gather(run, "u4", 2, "d"))
    assert sorted(again[0]) == ["c", "d"]


async def create(cluster: ScriptedCluster) -> None:
    await cluster.create(SINGLE)


async def ask_release(cluster: ScriptedCluster) -> None:
    await cluster.allocations.handle(
        ReleaseAsked(allocation_id=cluster.run.id, reason="others need it")
    )


LIFE: list[tuple[Do, str | None, list[str]]] = [
    (create, "queued", []),
    (lambda c: c.grant(), "reserved", ["start"]),
    (lambda c: c.report(RUNNING), "running", []),
    (lambda c: c.allocations.mark_ready(c.run.id), "running", []),
    (lambda c: c.reports.metrics(report(c, 1, loss=1.0)), "running", []),
    (ask_release, "running", ["release"]),
    (lambda c: c.allocations.acknowledge_preemption(c.run.id), "running", ["release"]),
    (lambda c: c.exit(0), "queued", []),
    (lambda c: c.grant(), "reserved", ["start"]),
    (lambda c: c.report(RUNNING), "running", []),
    (lambda c: c.exit(1), "queued", []),
    (lambda c: c.experiments.pause(1, by=ADMIN), None, []),
    (lambda c: c.experiments.activate(1, by=ADMIN), "queued", []),
    (lambda c: c.grant(), "reserved", ["start"]),
    (lambda c: c.report(RUNNING), "running", []),
    (lambda c: c.exit(0), None, []),
]
"""What happens, one commit each; what the resource manager is told after a crash just then, and what is done again."""


def held(cluster: ScriptedCluster) -> str | None:
    if not cluster.rm.records:
        return None
    (record,) = cluster.rm.records
    if not record.containers:
        return "queued"
    return "running" if record.started else "reserved"


@pytest.mark.slow
@pytest.mark.parametrize("cut", range(1, len(LIFE) + 1))
async def test_a_crash_after_any_commit_continues(
    tmp_path: Path, clock: ManualClock, cut: int
) -> None:
    async with life(tmp_path, clock) as cluster:
        for do, _, _ in LIFE[: cut - 1]:
            await do(cluster)
        assert cluster.store.commits == cut - 1
        last: Any = LIFE[cut - 1][0](cluster)
        await cluster.cut_after(1, last)
    _, told, again = LIFE[cut - 1]
    async with life(tmp_path, clock) as cluster:
        assert held(cluster) == told
        if cut == len(LIFE):
            assert cluster.experiments.all_live() == ()
            return
        assert cluster.rm.take() == [(call, cluster.run.id) for call in again]
        if told in ("reserved", "running"):
            token = cluster.mint.hash(cluster.run.id)
            assert cluster.allocations.owner_of(token) is not None
        cluster.rm.granted.add(cluster.run.id)
        for do, _, _ in LIFE[cut:]:
            await do(cluster)
        assert cluster.only.state.phase is Phase.COMPLETED
        assert cluster.trial.run_id == 4
        assert cluster.trial.restarts == 1
        assert cluster.trial.metrics.best == 1.0
        assert await rows(cluster, tables.Port) == 0


async def test_a_kill_is_sent_again_after_a_crash(tmp_path: Path, clock: ManualClock) -> None:
    async with life(tmp_path, clock) as cluster:
        for do, _, _ in LIFE[:3]:
            await do(cluster)
        await cluster.cut_after(1, cluster.experiments.kill(1, by=ADMIN))
    async with life(tmp_path, clock) as cluster:
        assert held(cluster) == "running"
        assert cluster.rm.take() == [("kill", cluster.run.id)]
        await cluster.exit(137)
        assert cluster.only.state.phase is Phase.CANCELED


async def test_what_is_left_of_a_broken_gang_is_killed_after_a_crash(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with life(tmp_path, clock) as cluster:
        run, _, _ = await gang(cluster)
        await cluster.cut_after(1, cluster.exit(1, rank=0))
    async with life(tmp_path, clock) as cluster:
        assert cluster.run.id == run
        assert cluster.rm.take() == [("kill", run)]
        await cluster.exit(137, rank=1)
        assert cluster.trial.restarts == 1


@pytest.mark.parametrize(
    ("reported", "error"),
    [
        ({"loss": 1.0}, ""),
        ({}, ""),
        (
            {"accuracy": 0.5, "batches": 3.0},
            'metric "loss" of the searcher was not in the validation metrics; '
            "reported: accuracy, batches",
        ),
    ],
)
async def test_a_trial_that_never_reported_the_searchers_metric_says_so(
    cluster: ScriptedCluster, reported: dict[str, float], error: str
) -> None:
    live = await cluster.create(SINGLE)
    await cluster.grant()
    await cluster.report(RUNNING)
    if reported:
        await cluster.reports.metrics(report(cluster, 1, **reported))
    await cluster.exit()
    (trial,) = live.state.trials.values()
    assert (trial.phase, live.state.phase) == (Phase.COMPLETED, Phase.COMPLETED)
    assert (trial.error, live.state.error) == (error, error)


async def test_the_pool_of_a_grant_is_committed_and_restored(
    tmp_path: Path, clock: ManualClock
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await cluster.create(SINGLE)
    await cluster.grant(pool="other", why="over quota")
    [row] = await cluster.store.read(select(tables.Allocation))
    assert (row.pool, row.granted_pool) == ("default", "other")
    await cluster.report(RUNNING)
    await cluster.crash()

    cluster = await ScriptedCluster.start(tmp_path, clock)
    try:
        (record,) = cluster.rm.records
        assert record.request.pool == "other"
        assert record.request.fell_back == FellBack(home="default", why="over quota")
        assert record.containers
        await cluster.experiments.roots.job_roots()[0].change_job(SetPool("other"), by=ADMIN)
        told = cluster.rm.requests[cluster.run.id]
        assert (told.pool, told.fell_back) == ("other", None)
    finally:
        await cluster.crash()


async def test_a_command_in_another_pool_is_restored_there(
    tmp_path: Path, clock: ManualClock
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    new = NewTask(type=JobType.COMMAND, config={"entrypoint": ["true"]})
    checked = await cluster.commands.launch(new, by=ADMIN)
    live = cluster.commands.live(checked.id)
    assert live is not None
    await cluster.grant(of=live.state.allocation, pool="other")
    await cluster.crash()

    cluster = await ScriptedCluster.start(tmp_path, clock)
    try:
        (record,) = cluster.rm.records
        assert (record.request.pool, record.request.fell_back) == (
            "other",
            FellBack(home="default"),
        )
    finally:
        await cluster.crash()
