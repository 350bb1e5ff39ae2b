"""Searches that a client drives."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from master.experiments.lifecycle.external import added_trial
from master.experiments.restoring import rebuilt
from master.store import tables
from tests.fakes.api_world import SINGLE, ApiWorld

EXTERNAL = """
name: outside
entrypoint: python3 train.py
searcher: {name: windlass_external, metric: loss}
hyperparameters: {lr: {type: double, minval: 0, maxval: 1}, batch: 64}
resources: {slots_per_trial: 1}
max_restarts: 0
"""


async def add(world: ApiWorld, id_: int, key: str, lr: float, **more: Any) -> dict[str, Any]:
    body = {"key": key, "hparams": {"lr": lr}, **more}
    answer = await world.ok("POST", f"/api/v1/windlass/experiments/{id_}/trials", body)
    trial: dict[str, Any] = answer["trial"]
    return trial


async def state_of(world: ApiWorld, id_: int) -> str:
    shown = await world.ok("GET", f"/api/v1/experiments/{id_}")
    return str(shown["experiment"]["state"])


async def test_a_client_adds_trials_stops_one_and_closes(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create(EXTERNAL)
    assert (await world.ok("GET", f"/api/v1/experiments/{id_}/trials"))["trials"] == []
    first = await add(world, id_, "one", 0.1)
    assert first["hparams"] == {"lr": 0.1, "batch": 64}
    run = await world.run_of(id_)
    await world.report(first["id"], "validation", 5, loss=0.5)
    await world.checkpoint(run, "five", 5)
    await world.finish(run)
    child = await add(world, id_, "two", 0.2, parentCheckpoint="five")
    assert child["warmStartCheckpointUuid"] == "five"
    await world.run_of(id_, 1)
    for _ in range(2):
        await world.ok("POST", f"/api/v1/windlass/experiments/{id_}/searcher/close")
    said = await world.refused(
        400,
        "POST",
        f"/api/v1/windlass/experiments/{id_}/trials",
        {"key": "3", "hparams": {"lr": 1}},
    )
    assert "closed" in said
    live = world.services.experiments.live(id_)
    assert live is not None
    await world.ok("POST", f"/api/v1/windlass/trials/{child['id']}/stop")
    await live.wait_until(lambda state: state.phase.is_terminal)
    stopped = await world.ok("GET", f"/api/v1/trials/{child['id']}")
    assert stopped["trial"]["state"] == "STATE_COMPLETED"
    assert await state_of(world, id_) == "STATE_COMPLETED"


async def test_what_is_sent_again_adds_nothing(world: ApiWorld) -> None:
    id_ = await world.create(EXTERNAL)
    first = await add(world, id_, "one", 0.1)
    assert (await add(world, id_, "one", 0.1))["id"] == first["id"]
    path = f"/api/v1/windlass/experiments/{id_}/trials"
    said = await world.refused(409, "POST", path, {"key": "one", "hparams": {"lr": 0.2}})
    assert said.startswith(f"key: trial {first['id']} was added with the key 'one'")
    assert len((await world.ok("GET", f"/api/v1/experiments/{id_}/trials"))["trials"]) == 1


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({"hparams": {"lr": 1}}, 400, "key"),
        ({"key": "", "hparams": {"lr": 1}}, 400, "key"),
        ({"key": "1"}, 400, "hparams.lr: missing"),
        ({"key": "1", "hparams": [1]}, 400, "hparams"),
        ({"key": "1", "hparams": {"lr": 1}, "parentCheckpoint": "none"}, 404, "checkpoint"),
    ],
)
async def test_what_is_wrong_is_named(
    world: ApiWorld, body: dict[str, Any], status: int, problem: str
) -> None:
    id_ = await world.create(EXTERNAL)
    said = await world.refused(status, "POST", f"/api/v1/windlass/experiments/{id_}/trials", body)
    assert problem in said


async def test_only_an_open_search_of_this_kind_takes_trials(world: ApiWorld) -> None:
    body = {"key": "1", "hparams": {"lr": 1}}
    single = await world.create(SINGLE)
    path = f"/api/v1/windlass/experiments/{single}"
    assert "windlass_external" in await world.refused(400, "POST", f"{path}/trials", body)
    assert "windlass_external" in await world.refused(400, "POST", f"{path}/searcher/close")
    ended = await world.create(EXTERNAL)
    await world.ok("POST", f"/api/v1/experiments/{ended}/kill")
    path = f"/api/v1/windlass/experiments/{ended}"
    for what in ("trials", "searcher/close"):
        said = await world.refused(400, "POST", f"{path}/{what}", body)
        assert said == f"Experiment {ended} has already been canceled"
    await world.refused(404, "POST", "/api/v1/windlass/experiments/999/trials", body)
    await world.refused(404, "POST", "/api/v1/windlass/trials/999/stop")


async def test_a_restarted_master_knows_the_keys(world: ApiWorld) -> None:
    id_ = await world.create(EXTERNAL)
    await add(world, id_, "one", 0.1)
    store, experiment = world.services.store, tables.Experiment
    row = await store.read_one(select(experiment).where(experiment.id == id_))
    live = world.services.experiments.live(id_)
    assert row is not None
    assert live is not None
    restored = await rebuilt(store, row)
    assert restored.searcher == live.state.searcher
    assert added_trial(restored, "one").hparams == {"lr": 0.1, "batch": 64}
