"""Lives of machines and budgets over REST; the dollars are the ledger's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.api_world import ApiWorld, api_world
from tests.fakes.one_machine import a_machine

FLEET = "/api/v1/windlass/fleet"


async def test_dollars_of_machines_are_those_of_the_ledger(world: ApiWorld) -> None:
    await world.add_agent("m")
    id_ = await world.create()
    await world.run_of(id_)
    await a_machine(world, "m")
    await a_machine(world, "n", usd_per_hour=1.0)
    world.clock.advance(1800)
    found = await world.ok("GET", f"{FLEET}/timeline")
    costs = await world.ok("GET", f"{FLEET}/costs?by=instance&month=all")
    ledger = {row["name"]: row["usd"] for row in costs["rows"]}
    assert ledger == {"m": pytest.approx(20.0), "n": pytest.approx(2.5)}
    assert {life["id"]: life["usd"] for life in found["machines"]} == pytest.approx(ledger)
    kinds = {life["id"]: [x["kind"] for x in life["spans"]] for life in found["machines"]}
    assert kinds == {"m": ["boot", "idle", "busy"], "n": ["boot", "idle"]}
    await world.services.costs.record()
    booked = await world.ok("GET", f"{FLEET}/timeline")
    assert booked["machines"] == found["machines"], "booking changes nothing"
    short = await world.ok("GET", f"{FLEET}/timeline?hours=1&limit=1")
    assert (len(short["machines"]), short["total"]) == (1, 2)
    assert [x["kind"] for x in short["machines"][0]["spans"]] == ["idle"]


async def test_an_unknown_price_is_not_zero(world: ApiWorld) -> None:
    await a_machine(world, "m", usd_per_hour=float("inf"))
    (life,) = (await world.ok("GET", f"{FLEET}/timeline"))["machines"]
    assert (life["usd"], life["usdPerHour"]) == (None, None)


@pytest.mark.parametrize("query", ["hours=0", "hours=721", "limit=0", "limit=5001"])
async def test_too_much_at_once_is_refused(world: ApiWorld, query: str) -> None:
    await world.refused(400, "GET", f"{FLEET}/timeline?{query}")


async def test_budgets_say_what_is_spent_and_of_what(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        rows = (await world.ok("GET", f"{FLEET}/budgets"))["budgets"]
        assert [(row["kind"], row["name"]) for row in rows] == [
            ("pool", "default"),
            ("user", "admin"),
        ]
        assert (rows[0]["spentUsd"], rows[0]["usdPerMonth"], rows[0]["usdPerHour"]) == (
            *(2.5, 10.0),
            None,
        )


async def test_costs_are_told_by_project(world: ApiWorld) -> None:
    await world.add_agent("m")
    id_ = await world.create()
    await world.run_of(id_)
    await a_machine(world, "m")
    world.clock.advance(1800)
    rows = (await world.ok("GET", f"{FLEET}/costs?by=project&month=all"))["rows"]
    shown = (await world.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]
    name = f"{shown['workspaceName']}/{shown['projectName']}"
    assert {row["name"]: row["busyUsd"] > 0 for row in rows} == {"": False, name: True}
