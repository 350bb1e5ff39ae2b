"""What would be launched now, over REST, before anything is submitted."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.api_world import SINGLE, ApiWorld, api_world

PLAN = "/api/v1/windlass/fleet/plan"
SEARCH = SINGLE.replace(
    "{name: single, metric: loss, smaller_is_better: true}",
    "{name: random, metric: loss, max_trials: 40, max_concurrent_trials: 20}",
).replace("slots_per_trial: 1", "slots_per_trial: 8")


async def test_an_experiment_is_planned_and_nothing_is_created(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        told = await world.ok("POST", PLAN, {"experiment": SEARCH})
        launches = [(x["offer"], x["machines"], x["slots"]) for x in told["launches"]]
        assert launches == [("site/gpu-8/on_demand", 2, 16)]
        assert (told["usdPerHour"], told["launches"][0]["runsOfConfig"]) == (4.0, 2)
        fares = {each["outcome"]: each for each in told["asked"]}
        assert (fares["launches"]["runs"], fares["waits"]["runs"]) == (2, 18)
        assert "max_instances (2)" in fares["waits"]["reason"]["text"]
        served, unserved = told["considered"]
        assert (served["runs"], served["offers"][0]["launched"]) == (2, 2)
        assert unserved["offers"][0]["whyNot"] == "the pool is at max_instances (2)"
        assert (await world.ok("GET", "/api/v1/experiments"))["experiments"] == []
        assert (await world.ok("GET", PLAN))["launches"] == []


async def test_it_is_planned_with_its_template(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        config = {"resources": {"slots_per_trial": 8, "slots": 8}}
        for kind, key in (("experiment", "slots_per_trial"), ("command", "slots")):
            template = {"config": {"resources": {key: config["resources"][key]}}}
            await world.ok("POST", f"/api/v1/templates/{kind}", template)
        single = SINGLE.replace("resources: {slots_per_trial: 1}\n", "")
        for body in ({"experiment": single}, {"command": {"entrypoint": ["true"]}}):
            told = await world.ok("POST", PLAN, {**body, "template": next(iter(body))})
            assert [each["slots"] for each in told["asked"]] == [8]
        said = await world.refused(404, "POST", PLAN, {"experiment": single, "template": "none"})
        assert said == "template 'none' not found"


async def test_what_its_pool_cannot_serve_is_planned_where_it_falls_back_to(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True, spare=True) as world:
        await world.login()
        told = await world.ok("POST", PLAN, {"experiment": SEARCH})
        assert [(x["pool"], x["machines"]) for x in told["launches"]] == [
            ("default", 2),
            ("spare", 3),
        ]
        assert told["usdPerHour"] == 10.0
        fates = {
            (x["outcome"], (x["fallBack"] or {}).get("pool")): (x["runs"], x["fallBack"])
            for x in told["asked"]
        }
        away = {"pool": "spare", "afterS": 300.0, "outcome": "launches"}
        assert fates == {
            ("launches", None): (2, None),
            ("waits", "spare"): (3, away),
            ("waits", None): (15, None),
        }
        pools = [(x["pool"], x["runs"]) for x in told["considered"]]
        assert ("spare", 3) in pools


async def test_a_run_that_may_not_fall_back_is_planned_at_home_alone(tmp_path: Path) -> None:
    stays = SEARCH.replace("slots_per_trial: 8", "slots_per_trial: 8, fall_back: false")
    async with api_world(tmp_path, elastic=True, spare=True) as world:
        await world.login()
        told = await world.ok("POST", PLAN, {"experiment": stays})
        assert [x["pool"] for x in told["launches"]] == ["default"]
        assert {x["fallBack"] for x in told["asked"]} == {None}


async def test_what_fits_free_slots_starts(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        await world.add_agent(slots=1)
        told = await world.ok("POST", PLAN, {"experiment": SINGLE})
        assert [(x["outcome"], x["runs"]) for x in told["asked"]] == [("starts", 1)]
        assert told["launches"] == []


async def test_a_command_is_planned(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login("determined")
        body = {"command": {"entrypoint": ["sleep", "1"], "resources": {"slots": 2}}}
        told = await world.ok("POST", PLAN, body)
        assert [(x["machines"], x["runsOfConfig"]) for x in told["launches"]] == [(1, 1)]


async def test_a_config_is_checked_as_at_submission(world: ApiWorld) -> None:
    message = await world.refused(400, "POST", PLAN, {"experiment": "name: [1"})
    assert "experiment configuration" in message
    wrong = SINGLE.replace("slots_per_trial: 1", "slots_per_trail: 1")
    assert "slots_per_trail" in await world.refused(400, "POST", PLAN, {"experiment": wrong})


async def test_one_configuration_is_given(world: ApiWorld) -> None:
    for body in ({}, {"experiment": SINGLE, "command": {}}):
        assert "give the configuration" in await world.refused(400, "POST", PLAN, body)


async def test_a_cluster_without_elastic_pools_says_why_it_waits(world: ApiWorld) -> None:
    told = await world.ok("POST", PLAN, {"experiment": SINGLE})
    (run,) = told["asked"]
    assert (told["launches"], run["outcome"]) == ([], "waits")
    assert run["reason"]["text"]
    assert (await world.ok("GET", PLAN))["usdPerHour"] == 0.0
