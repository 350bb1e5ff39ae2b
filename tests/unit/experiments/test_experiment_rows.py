"""What a step writes: the end of a run must reach the store even when the same step starts the next run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count

import pytest

from master.allocations import machine as allocation
from master.allocations.machine import AllocationState
from master.allocations.task_messages import lines
from master.core.searcher.search import Search
from master.experiments.lifecycle import machine
from master.experiments.lifecycle.persistence import changes
from master.experiments.lifecycle.state import ExperimentState, Phase, RunSettings
from master.experiments.lifecycle.step_builder import Env, ExperimentStep
from master.roots.root import Transition
from master.store import tables
from master.store.unit_of_work import Delete, Insert, Update
from rm_backends.base import Container, ContainerExit, ContainerPhase
from tests.fakes.pure_experiment import SINGLE, config_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SEARCH = Search.from_config(
    {"name": "single", "metric": "loss", "smaller_is_better": True},
    {"lr": {"type": "double", "minval": 0.0, "maxval": 1.0}},
    7,
)
ENV = Env(now=NOW, search=SEARCH, next_trial_id=count(1).__next__, next_metric_id=count(1).__next__)


def running() -> tuple[ExperimentState, AllocationState]:
    """An experiment whose only trial holds a slot and ports."""
    state = ExperimentState(
        id=1,
        job_id="job",
        owner_id=1,
        name="e",
        config=config_of(SINGLE),
        settings=RunSettings(pool="default", slots_per_trial=1, metric="loss"),
        searcher=SEARCH.start(),
        created_at=NOW,
        phase=Phase.ACTIVE,
    )
    state = machine.begin(state, ENV).state
    [trial] = state.trials.values()
    assert trial.allocation is not None
    grant = partial(
        allocation.granted,
        containers=(Container(container_id="c", agent_id="a", rank=0, slot_ids=(0,)),),
        token_hash="hash",
        ports={"C10D_PORT": 29400},
    )
    state = machine.allocation_event(state, ENV, trial.allocation.id, grant).state
    started = partial(
        allocation.container_changed,
        container_id="c",
        phase=ContainerPhase.RUNNING,
        exit_=None,
        now=NOW,
    )
    state = machine.allocation_event(state, ENV, trial.allocation.id, started).state
    [trial] = state.trials.values()
    assert trial.allocation is not None
    return state, trial.allocation


def lost() -> tuple[ExperimentState, AllocationState, ExperimentStep]:
    old, run = running()
    loss = partial(allocation.lost, reason="the agent is gone", now=NOW)
    return old, run, machine.allocation_event(old, ENV, run.id, loss)


def test_the_end_of_a_run_is_written_with_the_request_for_the_next() -> None:
    old, run, step = lost()
    operations = changes([Transition(old, step)]).operations
    [ended] = [o for o in operations if isinstance(o, Update) and o.table is tables.Allocation]
    assert ended.where == {"id": run.id}
    assert ended.values["is_open"] is False
    assert ended.values["token_hash"] is None
    assert "agent failure" in ended.values["exit_reason"]
    [requested] = [o for o in operations if isinstance(o, Insert) and o.table is tables.Allocation]
    assert requested.rows[0]["id"] == run.id.removesuffix(".1") + ".2"
    assert Delete(tables.Port, {"allocation_id": run.id}) in operations


def test_an_end_that_was_written_is_not_written_again() -> None:
    """The run ends while the experiment is paused; the next one is asked for much later."""
    old, run = running()
    paused = replace(old, phase=Phase.PAUSED)
    loss = partial(allocation.lost, reason="the agent is gone", now=NOW)
    ended = machine.allocation_event(paused, ENV, run.id, loss).state
    operations = changes([Transition(ended, machine.activate(ended, ENV))]).operations
    assert not [o for o in operations if isinstance(o, Update) and o.table is tables.Allocation]


def test_the_task_log_tells_of_the_end_and_of_the_next_run() -> None:
    said: list[tuple[str, str]] = []

    _, _, step = lost()
    for change in step.trials:
        for before, after in change.allocations():
            for _, line in lines("Trial 1", before, after):
                said.append((after.id.rpartition(".")[2], line.partition(":")[0]))
    assert [run for run, _ in said] == ["1", "2"]
    assert "was terminated" in said[0][1]
    assert "Scheduling" in said[1][1]


@pytest.mark.parametrize(
    ("exit_", "line"),
    [
        (
            ContainerExit(exit_code=0),
            ("INFO", "resources exited successfully with a zero exit code"),
        ),
        (
            ContainerExit(exit_code=3),
            (
                "ERROR",
                "resources failed with non-zero exit code: 3",
            ),
        ),
        (
            ContainerExit(exit_code=137, message="it used too much memory"),
            (
                "ERROR",
                "resources failed with non-zero exit code: it used too much memory (exit code 137)",
            ),
        ),
        (
            ContainerExit(exit_code=None, message="the image is not there"),
            ("ERROR", "resources failed: the image is not there"),
        ),
    ],
)
def test_the_task_log_closes_with_the_published_words(
    exit_: ContainerExit, line: tuple[str, str]
) -> None:
    _, run = running()
    ended, _ = allocation.container_changed(run, "c", ContainerPhase.TERMINATED, exit_, now=NOW)
    said = lines("Trial 1", run, ended)
    assert said[0] == line
    assert "was terminated" in said[1][1]
