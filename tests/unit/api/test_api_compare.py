"""Comparing runs, over REST."""

from __future__ import annotations

import pytest

from master.api import permits
from master.core.visibility import Visibility
from tests.fakes.api_world import ASHA, SINGLE, ApiWorld, file

URL = "/api/v1/windlass/compare"


async def test_experiments_are_compared_by_what_differs(world: ApiWorld) -> None:
    await world.add_agent(slots=4)
    first = await world.create(modelDefinition=[file("train.py", b"lr = 1\n")])
    more = SINGLE + "description: longer\n"
    second = await world.create(more, modelDefinition=[file("train.py", b"lr = 2\n")])
    await world.run_of(first)
    trial = world.trial_id(first)
    await world.report(trial, "validation", 1, loss=0.5)
    found = await world.ok("GET", f"{URL}?experimentIds={second}&experimentIds={first}")
    ran = [(run["experiment"]["id"], run["usd"]) for run in found["runs"]]
    assert ran == [(second, 0.0), (first, 0.0)]
    assert found["runs"][0]["trial"] is None
    best = found["runs"][1]
    assert (best["trial"]["id"], best["experiment"]["bestTrialSearcherMetric"]) == (trial, 0.5)
    (setting,) = found["settings"]
    assert setting == {
        "path": ["description"],
        "differs": True,
        "values": [{"value": "longer"}, {"value": None}],
    }
    every = await world.ok(
        "GET", f"{URL}?experimentIds={first}&experimentIds={second}&all=true&limit=2000"
    )
    assert len(every["settings"]) == every["total"] > found["differing"] == 1
    assert every["settings"][0]["path"] == ["description"]
    page = await world.ok(
        "GET", f"{URL}?experimentIds={first}&experimentIds={second}&all=true&limit=1&offset=1"
    )
    assert page["settings"] == every["settings"][1:2]
    path = f"/api/v1/windlass/experiments/{first}/difference?otherId={second}"
    code = await world.ok("GET", path)
    assert "+description: longer" in code["configuration"]
    (changed,) = code["files"]
    assert changed["diff"].endswith("-lr = 1\n+lr = 2\n")
    assert (changed["change"], code["differing"], code["same"]) == ("changed", 1, 0)
    same = f"/api/v1/windlass/experiments/{first}/difference?otherId={first}"
    assert await world.ok("GET", same) == {
        "configuration": "",
        "files": [],
        "differing": 0,
        "same": 0,
    }


async def test_trials_are_compared_by_the_hyperparameters_they_got(world: ApiWorld) -> None:
    await world.add_agent(slots=4)
    id_ = await world.create(ASHA)
    await world.run_of(id_, 0)
    await world.run_of(id_, 1)
    trials = [world.trial_id(id_, 0), world.trial_id(id_, 1)]
    found = await world.ok("GET", f"{URL}?trialIds={trials[0]}&trialIds={trials[1]}")
    assert [run["trial"]["id"] for run in found["runs"]] == trials
    for setting in found["settings"]:
        *above, name = setting["path"]
        assert above == ["hyperparameters"]
        told = [value["value"] for value in setting["values"]]
        assert told == [run["trial"]["hparams"][name] for run in found["runs"]]
    assert found["settings"]
    assert all(run["usd"] is None for run in found["runs"])


async def test_the_best_trial_goes_by_the_searchers_direction(world: ApiWorld) -> None:
    await world.add_agent(slots=4)
    larger = ASHA.replace("smaller_is_better: true", "smaller_is_better: false")
    for config, best in ((ASHA, 0), (larger, 1)):
        id_ = await world.create(config)
        for index in (0, 1):
            await world.run_of(id_, index)
            await world.report(world.trial_id(id_, index), "validation", 1, loss=1.0 + index)
        (run,) = (await world.ok("GET", f"{URL}?experimentIds={id_}"))["runs"]
        assert run["trial"]["id"] == world.trial_id(id_, best), config
        await world.ok("POST", f"/api/v1/experiments/{id_}/kill")


async def test_what_cannot_be_compared_is_refused(world: ApiWorld) -> None:
    id_ = await world.create()
    assert "name experiments" in await world.refused(400, "GET", URL)
    await world.refused(400, "GET", f"{URL}?experimentIds={id_}&trialIds=1")
    await world.refused(400, "GET", f"{URL}?" + "&".join(["experimentIds=1"] * 101))
    assert "99" in await world.refused(404, "GET", f"{URL}?experimentIds={id_}&experimentIds=99")
    await world.refused(404, "GET", f"{URL}?trialIds=99")
    path = f"/api/v1/windlass/experiments/{id_}/difference"
    await world.refused(404, "GET", f"{path}?otherId=99")
    await world.refused(400, "GET", path)


async def test_what_is_in_other_workspaces_is_not_compared(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add_agent()
    id_ = await world.create(modelDefinition=[file("secret.py", b"")])
    await world.run_of(id_)
    asked = (
        f"{URL}?experimentIds={id_}",
        f"{URL}?trialIds={world.trial_id(id_)}",
        f"/api/v1/windlass/experiments/{id_}/difference?otherId={id_}",
    )
    for workspace in (1, 2):
        visible = Visibility(frozenset({workspace}))
        monkeypatch.setattr(permits, "visibility", lambda principal, action, v=visible: v)
        for url in asked:
            if workspace == 1:
                await world.ok("GET", url)
            else:
                assert "not found" in await world.refused(404, "GET", url)
