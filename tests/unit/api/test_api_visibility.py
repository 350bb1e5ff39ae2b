"""Queries show what is in the workspaces their reader may see; the rest does not exist for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from master.api import permits
from master.api.services import Reads
from master.core.jobs import JobType
from master.core.visibility import EVERYTHING, Visibility
from master.experiments.queries.experiments import ExperimentFilter
from master.models.queries import ModelFilter
from master.store.paging import Page
from master.tasks.interactive_queries import InteractiveFilter
from master.templates.queries import TemplateFilter
from master.workspaces.queries import NamedFilter
from tests.fakes.api_world import ApiWorld
from windlass.base.errors import NotFound

HERE, ELSEWHERE = Visibility(frozenset({1})), Visibility(frozenset({2, 3}))


async def test_what_is_in_other_workspaces_is_not_found(world: ApiWorld) -> None:
    await world.add_agent()
    experiment = await world.create()
    allocation = await world.run_of(experiment)
    trial = world.trial_id(experiment)
    await world.checkpoint(allocation, "c", 1)
    launched = await world.ok("POST", "/api/v1/commands", {"config": {"entrypoint": ["true"]}})
    command = launched["command"]["id"]
    await world.ok("POST", "/api/v1/templates/mine", {"config": {}})
    await world.ok("POST", "/api/v1/models", {"name": "mine"})
    reads: Reads = world.app.state.api.reads
    single: list[Callable[[Visibility], Awaitable[object]]] = [
        lambda v: reads.experiments.experiment(experiment, v),
        lambda v: reads.experiments.require_experiments([experiment], v),
        lambda v: reads.experiments.trial(trial, v),
        lambda v: reads.experiments.require_trials([trial], v),
        lambda v: reads.checkpoints.checkpoint("c", v),
        lambda v: reads.tasks.task(allocation.task_id, v),
        lambda v: reads.tasks.task(command, v),
        lambda v: reads.tasks.allocation(allocation.id, v),
        lambda v: reads.tasks.task_of_trial(trial, v),
        lambda v: reads.tasks.context_of_task(allocation.task_id, v),
        lambda v: reads.workspaces.workspace(1, v),
        lambda v: reads.workspaces.project(1, v),
        lambda v: reads.interactive.task(command, v),
        lambda v: reads.templates.template("mine", v),
        lambda v: reads.templates.applied("mine", v),
        lambda v: reads.models.model("mine", v),
        lambda v: reads.workspaces.by_name("Uncategorized", v),
    ]
    for read in single:
        await read(EVERYTHING)
        await read(HERE)
        with pytest.raises(NotFound):
            await read(ELSEWHERE)


async def test_lists_leave_out_what_is_in_other_workspaces(world: ApiWorld) -> None:
    experiment = await world.create()
    await world.ok("POST", "/api/v1/commands", {"config": {"entrypoint": ["true"]}})
    await world.ok("POST", "/api/v1/templates/mine", {"config": {}})
    await world.ok("POST", "/api/v1/models", {"name": "mine", "labels": ["a"]})
    reads: Reads = world.app.state.api.reads
    page = Page()

    async def listed(visible: Visibility) -> list[int]:
        experiments = await reads.experiments.experiments(ExperimentFilter(), page, visible)
        trials = await reads.experiments.trials(experiment, (), page, visible)
        commands = await reads.interactive.tasks(
            JobType.COMMAND, InteractiveFilter(), page, visible
        )
        active = await reads.interactive.active_counts(visible)
        runs = await reads.finder.run_places([world.trial_id(experiment)], visible)
        workspaces = await reads.workspaces.workspaces(NamedFilter(), page, visible, reader=1)
        projects = await reads.workspaces.projects(0, NamedFilter(), page, visible)
        by_name = Page(sort="name")
        templates = await reads.templates.templates(TemplateFilter(), by_name, visible)
        models = await reads.models.models(ModelFilter(), page, visible)
        labels = await reads.models.labels(visible)
        return [
            *(models.total, len(labels)),
            *(experiments.total, trials.total, commands.total),
            *(workspaces.total, projects.total, templates.total),
            *(sum(active.values()), len(runs)),
        ]

    assert await listed(EVERYTHING) == [1] * 10
    assert await listed(HERE) == [1] * 10
    assert await listed(ELSEWHERE) == [0] * 10


async def test_live_tasks_and_waiting_ones_are_those_of_visible_workspaces(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create()
    for visible, number in ((EVERYTHING, 1), (HERE, 1), (ELSEWHERE, 0)):
        monkeypatch.setattr(permits, "visibility", lambda principal, action, v=visible: v)
        live = await world.ok("GET", "/api/v1/tasks")
        assert len(live["allocationIdToSummary"]) == number
        assert len(await world.ok("GET", "/tasks")) == number
        (pool, *_) = (await world.ok("GET", "/api/v1/windlass/pools"))["pools"]
        assert len(pool["waiting"]) == number
