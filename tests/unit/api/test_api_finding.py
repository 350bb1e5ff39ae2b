"""Searching experiments and runs over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.api_world import ASHA, ApiWorld

RUNS, EXPERIMENTS = "/api/v1/runs", "/api/v1/experiments-search"


def where(column: str, operator: str, value: Any, location: str = "") -> str:
    field = {"kind": "field", "columnName": column, "operator": operator, "value": value}
    field["location"] = location and f"LOCATION_TYPE_{location}"
    group = {"kind": "group", "conjunction": "and", "children": [field]}
    return json.dumps({"filterGroup": group, "showArchived": True})


async def test_runs_are_found_and_shown(world: ApiWorld) -> None:
    await world.add_agent()
    single = await world.create()
    run = await world.run_of(single)
    trial = world.trial_id(single)
    await world.report(trial, "validation", 3, loss=0.5)
    await world.ok("POST", f"/api/v1/runs/{trial}/metadata", {"metadata": {"a": {"b": ["x"]}}})
    await world.checkpoint(run, "0" * 32, 3)
    search = await world.create(ASHA)
    others = [world.trial_id(search, n) for n in range(4)]
    everything = await world.ok("POST", RUNS, {})
    assert [r["id"] for r in everything["runs"]] == [trial, *others]
    found = everything["runs"][0]
    assert found["state"] == "STATE_RUNNING"
    assert found["localId"] == f"UNCAT-{trial}"
    assert found["searcherMetricValue"] == 0.5
    assert found["hyperparameters"] == {"lr": 0.5}
    assert (found["checkpointCount"], found["checkpointSize"]) == (1, "5")
    assert found["experiment"]["id"] == single
    assert not found["experiment"]["isMultitrial"]
    for filter_ in (
        where("validation.loss.min", "<", 1, "VALIDATIONS"),
        where("metadata.a.b", "=", "x", "RUN_METADATA"),
        where("hp.lr", "=", 0.5, "RUN_HYPERPARAMETERS"),
        where("isExpMultitrial", "=", False),
        where("localId", "contains", f"uncat-{trial}"),
    ):
        some = await world.ok("POST", RUNS, {"filter": filter_, "projectId": 1})
        assert [r["id"] for r in some["runs"]] == [trial], filter_
    page = await world.ok("POST", RUNS, {"sort": "id=desc", "limit": 2, "offset": 1})
    assert [r["id"] for r in page["runs"]] == others[-2:-4:-1]
    assert page["pagination"]["total"] == 5
    assert page["pagination"]["endIndex"] == 3
    paged: list[int] = []
    for offset in range(0, 5, 2):  # of runs that are all alike
        page = await world.ok(
            "POST", RUNS, {"sort": "searcherType=desc", "limit": 2, "offset": offset}
        )
        paged += [r["id"] for r in page["runs"]]
    whole = await world.ok("POST", RUNS, {"sort": "searcherType=desc"})
    assert paged == [r["id"] for r in whole["runs"]]
    last = await world.ok("POST", RUNS, {"offset": -1, "limit": -1})
    assert [r["id"] for r in last["runs"]] == others[-1:]
    assert (await world.ok("POST", RUNS, {"limit": -2}))["runs"] == []


async def test_experiments_are_found_with_their_best_trial(world: ApiWorld) -> None:
    await world.add_agent()
    first, second = await world.create(), await world.create(ASHA)
    await world.run_of(first)
    trial = world.trial_id(first)
    await world.report(trial, "validation", 3, loss=0.5, acc=0.9)
    found = await world.ok("POST", EXPERIMENTS, {"sort": "validation.acc.max=desc"})
    assert [e["experiment"]["id"] for e in found["experiments"]] == [first, second]
    assert found["experiments"][0]["bestTrial"]["id"] == trial
    assert found["experiments"][0]["experiment"]["bestTrialSearcherMetric"] == 0.5
    assert found["experiments"][1]["bestTrial"] is None
    inside = where("hp.lr", "contains", 0.75, "HYPERPARAMETERS")
    found = await world.ok("POST", EXPERIMENTS, {"filter": inside})
    assert [e["experiment"]["id"] for e in found["experiments"]] == [second]
    await world.ok("POST", f"/api/v1/experiments/{first}/kill")
    live = world.services.experiments.live(first)
    if live is not None:
        await live.wait_until(lambda state: state.phase.is_terminal)
    await world.ok("POST", f"/api/v1/experiments/{first}/archive")
    found = await world.ok("POST", EXPERIMENTS, {})
    assert [e["experiment"]["id"] for e in found["experiments"]] == [second]


@pytest.mark.parametrize("path", [RUNS, EXPERIMENTS])
async def test_bad_searches_are_refused(world: ApiWorld, path: str) -> None:
    deep = '{"filterGroup":' + '{"kind":"group","conjunction":"and","children":[' * 10_000
    assert "deep" in await world.refused(400, "POST", path, {"filter": deep + "]}" * 10_000 + "}"})
    assert "sort" in await world.refused(400, "POST", path, {"sort": "nothing=asc"})
    assert "project" in await world.refused(404, "POST", path, {"projectId": 99})
    await world.refused(400, "POST", path, {"limit": -3})
    await world.refused(400, "POST", path, {"offset": 7})
    await world.refused(401, "POST", path, {}, token="nobody")
