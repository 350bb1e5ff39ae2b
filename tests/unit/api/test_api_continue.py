"""Experiments that have ended and go on."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select

from master.allocations.machine import AllocationState
from master.logs.rows import TaskLine
from master.store import tables
from tests.fakes.api_world import ASHA, SINGLE, ApiWorld

URL = "/api/v1/experiments/continue"
LONGER = "searcher: {max_length: 100}\nmax_restarts: 7\n"
SEARCH = """
name: search
entrypoint: python3 train.py
searcher: {name: random, metric: loss, max_trials: 3, max_concurrent_trials: 2}
hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}
resources: {slots_per_trial: 1}
max_restarts: 0
"""


async def go_on(world: ApiWorld, id_: int, override: str = "") -> dict[str, Any]:
    body = {"id": id_, "overrideConfig": override}
    found: dict[str, Any] = (await world.ok("POST", URL, body))["experiment"]
    return found


async def shown(world: ApiWorld, id_: int) -> dict[str, Any]:
    found: dict[str, Any] = (await world.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]
    return found


async def only_trial(world: ApiWorld, id_: int) -> dict[str, Any]:
    (trial,) = (await world.ok("GET", f"/api/v1/experiments/{id_}/trials"))["trials"]
    assert isinstance(trial, dict)
    return trial


async def trained(world: ApiWorld, config: str = SINGLE) -> tuple[int, AllocationState]:
    """A single trial with reports at 5, 10 and 15 steps and a checkpoint at 10."""
    await world.add_agent()
    id_ = await world.create(config)
    run = await world.run_of(id_)
    trial = world.trial_id(id_)
    for steps in (5, 10):
        await world.report(trial, "training", steps, loss=1 / steps)
        await world.report(trial, "validation", steps, loss=2 / steps)
    await world.checkpoint(run, "ten", 10)
    await world.report(trial, "training", 15, loss=0.01)
    await world.report(trial, "validation", 15, loss=0.01)
    return id_, run


async def steps_of(world: ApiWorld, trial: int, group: str) -> list[int]:
    lines = await world.lines(
        "/api/v1/trials/metrics/trial_metrics", params={"trialIds": trial, "group": group}
    )
    return [report["totalBatches"] for line in lines for report in line["metrics"]]


async def test_a_completed_trial_goes_on_from_its_last_checkpoint(world: ApiWorld) -> None:
    id_, run = await trained(world)
    await world.finish(run)
    before = await shown(world, id_)
    experiment = await go_on(world, id_, LONGER)
    assert (experiment["id"], experiment["jobId"]) == (id_, before["jobId"])
    assert experiment["state"] not in ("STATE_COMPLETED", "STATE_ERROR")
    assert (experiment["progress"], experiment["endTime"]) == (0.0, None)
    assert experiment["originalConfig"] == before["originalConfig"]
    assert experiment["config"]["max_restarts"] == 7
    assert experiment["config"]["searcher"]["max_length"] == 100
    again = await world.run_of(id_)
    assert again.task_id == f"{run.task_id}-1"
    assert again.run_id == run.run_id + 1
    trial = await only_trial(world, id_)
    assert (trial["taskIds"], trial["taskId"]) == ([run.task_id, again.task_id], again.task_id)
    assert trial["state"] == "STATE_RUNNING"
    assert (trial["restarts"], trial["endTime"], trial["totalBatchesProcessed"]) == (0, None, 10)
    assert trial["latestValidation"]["metrics"]["avgMetrics"] == {"loss": 0.2}
    assert trial["summaryMetrics"]["validation_metrics"]["loss"]["count"] == 2
    assert await steps_of(world, trial["id"], "training") == [5, 10]
    live = world.services.experiments.live(id_)
    assert live is not None
    (state,) = live.state.trials.values()
    assert (state.latest_checkpoint, state.latest_checkpoint_steps) == ("ten", 10)
    old = await world.report(trial["id"], "training", 20, run_id=run.run_id, loss=0.5)
    assert old.status_code == 400
    done = await world.report(trial["id"], "training", 20, run_id=again.run_id, loss=0.5)
    assert done.status_code == 200
    assert await steps_of(world, trial["id"], "training") == [5, 10, 20]
    await world.finish(again)
    assert (await shown(world, id_))["state"] == "STATE_COMPLETED"


async def test_it_goes_on_again_and_again_after_each_kind_of_end(world: ApiWorld) -> None:
    id_, run = await trained(world, SINGLE.replace("max_restarts: 2", "max_restarts: 0"))
    await world.finish(run, code=1)
    assert (await shown(world, id_))["state"] == "STATE_ERROR"
    await go_on(world, id_)
    second = await world.run_of(id_)
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    live = world.services.experiments.live(id_)
    assert live is not None
    await live.wait_until(lambda state: state.phase.is_terminal)
    found = await shown(world, id_)
    assert (found["state"], found["error"]) == ("STATE_CANCELED", "")
    world.services.experiments.forget(id_)  # as after a minute
    await go_on(world, id_)
    third = await world.run_of(id_)
    assert [second.task_id, third.task_id] == [f"{run.task_id}-1", f"{run.task_id}-2"]
    await world.ok("POST", f"/api/v1/experiments/{id_}/cancel")
    await world.finish(third)
    await go_on(world, id_)
    trial = await only_trial(world, id_)
    assert len(trial["taskIds"]) == 4
    await world.finish(await world.run_of(id_))
    assert (await shown(world, id_))["state"] == "STATE_COMPLETED"
    rows = await world.services.store.read(select(tables.Task).where(tables.Task.type == "TRIAL"))
    assert all(row.ended_at is not None for row in rows)


async def test_without_a_checkpoint_it_begins_anew(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run = await world.run_of(id_)
    trial = world.trial_id(id_)
    await world.report(trial, "training", 5, loss=1.0)
    await world.finish(run)
    await go_on(world, id_, "hyperparameters: {lr: 0.25}")
    found = await only_trial(world, id_)
    assert found["totalBatchesProcessed"] == 0
    assert found["summaryMetrics"] == {}
    assert found["hparams"] == {"lr": 0.25}
    assert await steps_of(world, trial, "training") == []


async def test_a_search_runs_again_what_has_not_completed(world: ApiWorld) -> None:
    for name in ("node-1", "node-2", "node-3"):
        await world.add_agent(name)
    id_ = await world.create(SEARCH)
    first, second = await world.run_of(id_, 0), await world.run_of(id_, 1)
    await world.finish(first)
    await world.finish(second, code=1)
    third = await world.run_of(id_, 2)
    await world.ok("POST", f"/api/v1/experiments/{id_}/cancel")
    await world.finish(third)
    assert (await shown(world, id_))["state"] == "STATE_CANCELED"
    experiment = await go_on(world, id_, "{}\n")
    assert experiment["progress"] == 0.0
    again = [await world.run_of(id_, 1), await world.run_of(id_, 2)]
    assert [run.task_id for run in again] == [f"{second.task_id}-1", f"{third.task_id}-1"]
    for run in again:
        await world.finish(run)
    found = await shown(world, id_)
    assert (found["state"], found["numTrials"]) == ("STATE_COMPLETED", 3)
    refused = await world.refused(400, "POST", URL, {"id": id_})
    assert refused == "experiment has been completed, cannot continue this experiment"


async def test_a_search_that_was_cancelled_early_makes_the_rest_of_its_trials(
    world: ApiWorld,
) -> None:
    await world.add_agent()
    grid = SEARCH.replace("random", "grid").replace(
        "max_trials: 3, max_concurrent_trials: 2", "max_concurrent_trials: 1"
    )
    grid = grid.replace("maxval: 1", "maxval: 1, count: 2")
    id_ = await world.create(grid)
    first = await world.run_of(id_)
    await world.ok("POST", f"/api/v1/experiments/{id_}/cancel")
    await world.finish(first)
    await go_on(world, id_)
    await world.finish(await world.run_of(id_, 0))
    await world.finish(await world.run_of(id_, 1))
    found = await shown(world, id_)
    assert (found["state"], found["numTrials"]) == ("STATE_COMPLETED", 2)


async def test_its_logs_go_on_in_the_same_trial(world: ApiWorld) -> None:
    id_, run = await trained(world)
    trial = world.trial_id(id_)
    await world.finish(run)
    await go_on(world, id_)
    again = await world.run_of(id_)
    now = world.clock.now()
    await world.services.logs.append(
        [
            TaskLine(task_id=task, timestamp=now, log=text)
            for task, text in ((again.task_id, "second\n"), (run.task_id, "first\n"))
        ]
    )
    lines = await world.lines(f"/api/v1/trials/{trial}/logs")
    mine = [
        line["message"]
        for line in lines
        if "first" in line["message"] or "second" in line["message"]
    ]
    assert [line.strip().rpartition(" ")[2] for line in mine] == ["first", "second"]


async def test_it_takes_a_new_place_in_the_queue(world: ApiWorld) -> None:
    first = await world.create()
    await world.ok("POST", f"/api/v1/experiments/{first}/kill")
    world.clock.advance(10)
    await go_on(world, first)
    live = world.services.experiments.live(first)
    assert live is not None
    assert live.job_order().position == Decimal(str(world.clock.now().timestamp()))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("project: other", "overrideConfig: project: use `det experiment move` first to change it"),
        ("workspace: w", "overrideConfig: workspace: use `det experiment move` first to change it"),
        (
            "searcher: {name: random, max_trials: 2}",
            'overrideConfig: searcher.name must stay "single", not "random"',
        ),
        ("max_restarts: -1", "max_restarts"),
        ("resources: {resource_pool: nowhere}", "nowhere"),
        ("[1]", "expected object"),
    ],
)
async def test_overrides_that_may_not_be(world: ApiWorld, override: str, message: str) -> None:
    id_ = await world.create()
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    response = await world.call("POST", URL, {"id": id_, "overrideConfig": override})
    assert response.status_code in (400, 404)
    assert message in response.json()["error"]["error"]
    assert (await shown(world, id_))["state"] == "STATE_CANCELED"
    await go_on(world, id_)


async def test_what_cannot_go_on(world: ApiWorld) -> None:
    assert await world.refused(404, "POST", URL, {"id": 99}) == "experiment '99' not found"
    id_ = await world.create()
    busy = await world.refused(400, "POST", URL, {"id": id_})
    assert busy == "experiment in non terminal state 'ACTIVE', try again later"
    asha = await world.create(ASHA)
    for one in (id_, asha):
        await world.ok("POST", f"/api/v1/experiments/{one}/kill")
    other = await world.refused(400, "POST", URL, {"id": asha})
    assert other.startswith("Unsupported searcher type provided: 'async_halving': its trials")
    search = await world.create(SEARCH)
    await world.ok("POST", f"/api/v1/experiments/{search}/kill")
    body = {"id": search, "overrideConfig": "max_restarts: 3"}
    assert 'takes one, not "random"' in await world.refused(400, "POST", URL, body)
    await world.ok("POST", f"/api/v1/experiments/{id_}/archive")
    archived = await world.refused(400, "POST", URL, {"id": id_})
    assert archived == f"experiment {id_} is archived: unarchive it first"
    await world.ok("POST", f"/api/v1/experiments/{id_}/unarchive")
    await world.login("determined")
    assert "belongs to admin" in await world.refused(403, "POST", URL, {"id": id_})


async def test_an_experiment_that_is_deleted_does_not_go_on(world: ApiWorld) -> None:
    id_ = await world.create()
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    await world.ok("DELETE", f"/api/v1/experiments/{id_}")
    refused = await world.refused(400, "POST", URL, {"id": id_})
    assert refused == "experiment in non terminal state 'DELETING', try again later"
