"""How busy machines and GPUs of a trial were, by REST."""

from __future__ import annotations

import pytest

from master.api.windlass import profiles
from tests.fakes.api_world import ApiWorld


async def reported(world: ApiWorld, readings: int) -> int:
    """A trial of which so many reports of each group are stored, one a minute."""
    await world.add_agent()
    experiment = await world.create()
    await world.run_of(experiment)
    trial = world.trial_id(experiment)
    for number in range(readings):
        for group, measured in (
            ("gpu", {"GPU-1": {"gpu_util": 1.0, "gpu_free_memory": 5.0}}),
            ("cpu", {"cpu_util_simple": float(number)}),
            ("disk", {"disk_iops": 2.0, "/": {"disk_util": 40.0}}),
        ):
            await world.report(trial, group, 0, **{"node-1": measured})
        world.clock.advance(60)
    return trial


async def test_series_are_reduced_to_points_and_idle_gpus_named(world: ApiWorld) -> None:
    trial = await reported(world, 12)
    found = await world.ok("GET", f"/api/v1/windlass/trials/{trial}/profile?points=4")
    assert {one["name"] for one in found["series"]} == {
        "gpu_util",
        "gpu_free_memory",
        "cpu_util_simple",
        "disk_iops",
        "disk_util /",
    }
    (cpu,) = (one for one in found["series"] if one["name"] == "cpu_util_simple")
    assert [(p["min"], p["max"]) for p in cpu["points"]] == [(0, 2), (3, 5), (6, 8), (9, 11)]
    assert (cpu["readings"], cpu["mean"], cpu["agentId"], cpu["gpuUuid"]) == (
        12,
        5.5,
        "node-1",
        "",
    )
    assert found["idleGpus"] == [{"agentId": "node-1", "gpuUuid": "GPU-1", "percent": 1.0}]
    assert (found["reports"], found["everyNth"]) == (36, 1)


async def test_of_very_many_reports_some_of_each_group_are_read(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "MOST_REPORTS", 12)
    trial = await reported(world, 12)
    found = await world.ok("GET", f"/api/v1/windlass/trials/{trial}/profile")
    assert (found["reports"], found["everyNth"]) == (36, 3)
    assert {one["readings"] for one in found["series"]} == {4}


async def test_agents_that_report_in_turn_are_all_among_some_reports(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "MOST_REPORTS", 40)
    await world.add_agent()
    experiment = await world.create()
    await world.run_of(experiment)
    trial = world.trial_id(experiment)
    for number in range(80):
        measured = {f"node-{number % 2}": {"GPU": {"gpu_util": float(number % 2)}}}
        await world.report(trial, "gpu", 0, **measured)
        world.clock.advance(1)
    found = await world.ok("GET", f"/api/v1/windlass/trials/{trial}/profile")
    assert found["everyNth"] == 2
    readings = {one["agentId"]: one["readings"] for one in found["series"]}
    assert sum(readings.values()) == 40
    assert min(readings["node-0"], readings["node-1"]) >= 10


async def test_without_a_profiler_there_is_nothing(world: ApiWorld) -> None:
    trial = world.trial_id(await world.create())
    found = await world.ok("GET", f"/api/v1/windlass/trials/{trial}/profile")
    assert (found["since"], found["series"], found["idleGpus"]) == (None, [], [])
    await world.refused(404, "GET", "/api/v1/windlass/trials/99/profile")
    url = f"/api/v1/windlass/trials/{trial}/profile?points=1001"
    assert "points" in await world.refused(400, "GET", url)
