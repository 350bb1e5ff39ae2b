"""Messages that wait for one experiment become one commit; what each caller is told is its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from master.experiments.lifecycle.state import ExperimentState, Phase, TrialState
from master.experiments.lifecycle.step_builder import Env, ExperimentStep
from master.experiments.live import LiveExperiment
from master.experiments.reports.metrics import PostedMetrics
from master.experiments.reports.service import CheckpointReport
from master.roots.root import Transition
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from rm_backends.base import ContainerPhase
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import Conflict, InvalidArgument, InvalidState, StoreUnavailable

SEARCH = """
name: search
entrypoint: "true"
searcher: {name: random, metric: loss, max_trials: 6, max_concurrent_trials: 6}
hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}
resources: {slots_per_trial: 1}
"""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ScriptedCluster]:
    cluster = await ScriptedCluster.start(tmp_path, ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    yield cluster
    await cluster.crash()


async def running_search(cluster: ScriptedCluster) -> tuple[LiveExperiment, list[TrialState]]:
    live = await cluster.create(SEARCH)
    trials = list(live.state.trials.values())
    for trial in trials:
        await cluster.grant(of=trial.allocation)
        await cluster.report(ContainerPhase.RUNNING, of=trial.allocation)
    cluster.store.commits = 0
    return live, trials


def report(cluster: ScriptedCluster, trial: TrialState, steps: int, run_id: int = 1) -> Any:
    return cluster.reports.metrics(
        PostedMetrics(
            trial_id=trial.id,
            run_id=run_id,
            group="validation",
            steps=steps,
            avg={"loss": 1.0 / steps},
            at=cluster.clock.now(),
        )
    )


async def together(*work: Awaitable[Any]) -> list[Any]:
    """All asked for before the first is handled; what each gets."""
    return await asyncio.gather(*work, return_exceptions=True)


async def stored(cluster: ScriptedCluster) -> list[tuple[int, int | None]]:
    metric = tables.Metric
    rows = await cluster.store.read(
        select(metric).where(metric.archived.is_(False)).order_by(metric.id)
    )
    return [(row.trial_id, row.steps) for row in rows]


async def test_reports_of_many_trials_are_one_commit(cluster: ScriptedCluster) -> None:
    live, trials = await running_search(cluster)
    assert await together(*(report(cluster, t, 10) for t in trials)) == [None] * len(trials)
    assert cluster.store.commits == 1
    assert await stored(cluster) == [(t.id, 10) for t in trials]
    assert {t.metrics.best for t in live.state.trials.values()} == {0.1}
    event = tables.SearcherEvent
    logged = await cluster.store.read(select(event.seq).order_by(event.seq))
    assert logged == list(range(1, live.state.searcher_seq + 1))


async def test_a_step_that_raises_is_left_out_alone(cluster: ScriptedCluster) -> None:
    live, (first, second, third, *_) = await running_search(cluster)
    one, two, three = await together(
        report(cluster, first, 10),
        report(cluster, second, 10, run_id=9),
        report(cluster, third, 10),
    )
    assert (one, three) == (None, None)
    assert isinstance(two, InvalidArgument)
    assert cluster.store.commits == 1
    assert await stored(cluster) == [(first.id, 10), (third.id, 10)]
    assert live.state.trials[second.request_id].metrics.best is None


async def test_later_steps_of_a_batch_see_what_earlier_ones_did(cluster: ScriptedCluster) -> None:
    live, (trial, *_) = await running_search(cluster)
    answers = await together(
        report(cluster, trial, 10),
        report(cluster, trial, 10),
        report(cluster, trial, 20),
        cluster.experiments.kill(live.state.id, by=ADMIN),
        cluster.experiments.activate(live.state.id, by=ADMIN),
    )
    assert answers[:4] == [None] * 4
    assert isinstance(answers[4], InvalidState)
    assert await stored(cluster) == [(trial.id, 10), (trial.id, 20)]
    assert live.state.phase is Phase.STOPPING_KILLED
    assert cluster.store.commits == 1


async def test_a_commit_that_fails_changes_nothing_and_fails_the_batch(
    cluster: ScriptedCluster,
) -> None:
    live, trials = await running_search(cluster)
    before = live.state
    cluster.rm.take()
    cluster.store.full = True
    answers = await together(
        *(report(cluster, t, 10) for t in trials),
        report(cluster, trials[0], 20, run_id=9),
        cluster.experiments.kill(live.state.id, by=ADMIN),
    )
    assert {type(answer) for answer in answers} == {StoreUnavailable}
    assert live.state is before
    assert cluster.rm.take() == []
    cluster.store.full = False
    assert await together(*(report(cluster, t, 10) for t in trials)) == [None] * len(trials)


async def test_a_step_whose_rows_cannot_be_written_fails_alone(cluster: ScriptedCluster) -> None:
    live, (first, second, *_) = await running_search(cluster)

    def unwritable(state: ExperimentState, env: Env) -> ExperimentStep:
        rows = UnitOfWork()
        rows.update(tables.Trial, {"id": -1}, {"runner_state": "x"}, expect=1)
        return ExperimentStep(state, rows=tuple(rows.operations))

    answers = await together(
        report(cluster, first, 10), live.apply(unwritable), report(cluster, second, 10)
    )
    assert [type(answer) for answer in answers] == [type(None), Conflict, type(None)]
    assert await stored(cluster) == [(first.id, 10), (second.id, 10)]


async def test_a_report_between_the_reading_and_the_step_of_a_roll_back_counts(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, (trial, *_) = await running_search(cluster)
    for steps in (10, 20, 30):
        await report(cluster, trial, steps)
    await cluster.exit(1, of=trial.allocation)
    read, readings = cluster.store.read, 0

    async def another_report_first(statement: Any) -> Any:
        nonlocal readings
        readings += 1
        rows = await read(statement)
        if readings == 1:
            await report(cluster, trial, 25, run_id=2)
        return rows

    monkeypatch.setattr(cluster.store, "read", another_report_first)
    await report(cluster, trial, 15, run_id=2)
    monkeypatch.undo()
    assert [steps for _, steps in await stored(cluster)] == [10, 20, 25, 15]
    metrics = live.state.trials[trial.request_id].metrics
    assert metrics.summary["validation_metrics"]["loss"]["count"] == 4
    assert (metrics.best, metrics.steps_completed) == (1 / 25, 25)


@pytest.mark.slow
async def test_a_subscriber_is_told_each_committed_step_in_order_and_cannot_fail_it(
    cluster: ScriptedCluster,
) -> None:
    live, (first, second, *_) = await running_search(cluster)
    told: list[str] = []

    def fail(transition: Transition[ExperimentState, ExperimentStep]) -> None:
        raise ValueError("broken")

    def note(transition: Transition[ExperimentState, ExperimentStep]) -> None:
        assert cluster.store.commits == 1
        told.extend(change.after.request_id for change in transition.step.trials)

    live.subscribe(fail)
    live.subscribe(note)
    answers = await together(
        report(cluster, second, 10),
        report(cluster, first, 10, run_id=9),
        report(cluster, first, 10),
    )
    assert [type(answer) for answer in answers] == [type(None), InvalidArgument, type(None)]
    assert told == [second.request_id, first.request_id]


async def test_a_checkpoint_stays_with_the_task_that_reported_it_first(
    cluster: ScriptedCluster,
) -> None:
    _, (first, second, *_) = await running_search(cluster)

    def saved(trial: TrialState) -> CheckpointReport:
        metadata = {"steps_completed": 1}
        return CheckpointReport(uuid="u", task_id=trial.task_id, resources={}, metadata=metadata)

    await cluster.reports.checkpoint(saved(first))
    with pytest.raises(Conflict, match=f"checkpoint u belongs to task {first.task_id}"):
        await cluster.reports.checkpoint(saved(second))
    await cluster.reports.checkpoint(saved(first))
    owners = await cluster.store.read(select(tables.Checkpoint.task_id))
    assert owners == [first.task_id]
