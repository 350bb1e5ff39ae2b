"""Curves, columns and the search of many trials at once, over REST."""

from __future__ import annotations

from tests.fakes.api_world import ASHA, SINGLE, ApiWorld
from tests.unit.api.test_api_external_searches import EXTERNAL, add

GRID = """
name: grid
entrypoint: python3 train.py
searcher: {name: grid, metric: loss}
hyperparameters:
  lr: {type: double, minval: 0, maxval: 1, count: 3}
  net: {kind: {type: categorical, vals: [a, 2]}, fixed: 7}
resources: {slots_per_trial: 1}
"""


async def search(world: ApiWorld) -> tuple[int, list[int]]:
    """Four trials of an ASHA search: the third is best and went on, the fourth has not reported."""
    await world.add_agent(slots=4)
    id_ = await world.create(ASHA)
    for index, loss in enumerate((3.0, 2.0, 1.0)):
        await world.run_of(id_, index)
        trial = world.trial_id(id_, index)
        await world.report(trial, "training", 2, loss=loss + 1, epoch=0.5)
        await world.report(trial, "training", 4, loss="NaN")
        await world.report(trial, "validation", 4, loss=loss, epochs=4)
    await world.run_of(id_, 3)
    return id_, [world.trial_id(id_, index) for index in range(4)]


async def test_curves_of_the_best_trials(world: ApiWorld) -> None:
    id_, (first, second, third, fourth) = await search(world)
    path = f"/api/v1/windlass/experiments/{id_}/metric-series"
    found = await world.ok("GET", path)
    assert (found["trials"], found["total"]) == ([third, second, first, fourth], 4)
    (metric,) = found["metrics"]
    assert metric["metric"] == "validation.loss"
    values = {one["trialId"]: (one["steps"], one["values"]) for one in metric["series"]}
    assert values == {third: ([4], [1.0]), second: ([4], [2.0]), first: ([4], [3.0])}
    names = "metrics=training.loss&metrics=training.none&metrics=training.loss"
    found = await world.ok("GET", f"{path}?{names}&trials=2")
    assert found["trials"] == [third, second]
    loss, none = found["metrics"]
    assert none["series"] == []
    assert loss["series"][0] == {
        "trialId": third,
        "steps": [2],
        "times": [world.clock.now().timestamp()],
        "epochs": [0.5],
        "values": [2.0],
        "notFinite": {"count": 1, "firstSteps": 4, "lastSteps": 4},
    }
    found = await world.ok("GET", f"{path}?trialIds={first}&trialIds={fourth}&points=4")
    assert (found["trials"], found["points"]) == ([first, fourth], 4)
    for bounds, steps in (("start=3", []), ("start=2&end=2", [2]), ("end=1", [])):
        found = await world.ok("GET", f"{path}?metrics=training.loss&trials=1&{bounds}")
        assert found["metrics"][0]["series"][0]["steps"] == steps
    other = world.trial_id(await world.create(SINGLE))
    said = await world.refused(400, "GET", f"{path}?trialIds={other}")
    assert f"trial {other} is not one of experiment {id_}" in said
    await world.refused(404, "GET", f"{path}?trialIds=99")
    assert "group.name" in await world.refused(400, "GET", f"{path}?metrics=loss")
    await world.refused(404, "GET", path.replace(f"/{id_}/", "/99/"))


async def test_hyperparameters_and_a_metric_in_columns(world: ApiWorld) -> None:
    id_, (first, second, third, fourth) = await search(world)
    path = f"/api/v1/windlass/experiments/{id_}/trial-columns"
    found = await world.ok("GET", path)
    assert found["trials"] == [third, second, first, fourth]
    assert found["metric"] == found["searcherMetric"] == "validation.loss"
    assert found["smallest"] == found["largest"] == found["last"] == [1.0, 2.0, 3.0, None]
    assert found["steps"] == [4, 4, 4, 0]
    assert found["states"][0] == "STATE_RUNNING"
    (lr,) = found["hyperparameters"]
    trials = (await world.ok("GET", f"/api/v1/experiments/{id_}/trials"))["trials"]
    drawn = {trial["id"]: trial["hparams"]["lr"] for trial in trials}
    assert (lr["name"], lr["kind"]) == ("lr", "double")
    assert lr["values"] == [drawn[trial] for trial in found["trials"]]
    training = await world.ok("GET", f"{path}?metric=training.loss&limit=1")
    assert (training["total"], training["trials"]) == (4, [third])
    assert (training["smallest"], training["last"]) == ([2.0], ["NaN"])
    assert "group.name" in await world.refused(400, "GET", f"{path}?metric=.loss")


async def test_trials_of_a_client_may_have_any_hyperparameters(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create(EXTERNAL)
    await add(world, id_, "one", 0.1)
    body = {"key": "two", "hparams": {"lr": "none", "net": {"depth": 2}}}
    await world.ok("POST", f"/api/v1/windlass/experiments/{id_}/trials", body)
    found = await world.ok("GET", f"/api/v1/windlass/experiments/{id_}/trial-columns")
    columns = {one["name"]: (one["kind"], one["values"]) for one in found["hyperparameters"]}
    assert columns["lr"] == ("double", [0.1, "none"])
    assert columns["net.depth"] == ("other", [None, 2])


async def test_rungs_say_who_is_on_the_way_and_what_is_needed(world: ApiWorld) -> None:
    id_, (first, second, third, fourth) = await search(world)
    path = f"/api/v1/windlass/experiments/{id_}/searcher"
    found = await world.ok("GET", path)
    assert (found["metric"], found["timeMetric"], found["divisor"]) == ("loss", "epochs", 2)
    assert (found["smallerIsBetter"], found["maxTrials"], found["grid"]) == (True, 4, [])
    low, high = found["rungs"]
    assert [(one["trialId"], one["promoted"]) for one in low["entries"]] == [
        (third, True),
        (second, True),
        (first, True),
    ]
    assert [one["trialId"] for one in low["training"]] == [fourth]
    assert (low["toGoOn"], low["isLast"]) == (2.0, False)
    assert [one["trialId"] for one in high["training"]] == [first, second, third]
    assert (high["toGoOn"], high["isLast"]) == (None, True)


async def test_a_grid_says_its_points(world: ApiWorld) -> None:
    id_ = await world.create(GRID)
    found = await world.ok("GET", f"/api/v1/windlass/experiments/{id_}/searcher")
    assert (found["rungs"], found["maxTrials"], found["divisor"]) == ([], 6, 0)
    assert found["grid"] == [
        {"name": "lr", "size": 3, "values": [0.0, 0.5, 1.0]},
        {"name": "net.kind", "size": 2, "values": ["a", 2]},
    ]
