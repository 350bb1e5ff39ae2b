"""What machines cost, over REST."""

from __future__ import annotations

import pytest

from master.costs.lines import CostLine, GroupBy
from master.costs.reports import OTHERS, experiment_cost, summed
from master.store.tables import Cost
from master.store.unit_of_work import UnitOfWork
from provisioner.money.lifetimes import CostKind
from tests.fakes.api_world import ApiWorld

K = CostKind


def line(job: str, usd: float, kind: K = K.BUSY, **more: object) -> CostLine:
    values: dict[str, object] = {"day": "2026-11-28", "pool": "gpu", "instance_id": "m"}
    user = 1 if job else None
    values |= {"user_id": user, "experiment_id": 7 if job else None, "hours": usd / 2} | more
    return CostLine(job_id=job, kind=kind, usd=usd, **values)  # type: ignore[arg-type]


def test_what_a_reader_may_not_see_is_one_line() -> None:
    lines = [line("a", 3.0), line("b", 2.0), line("c", 1.0), line("", 0.5, K.IDLE)]
    sums = summed(lines, GroupBy.JOB, usernames={1: "ann"}, is_visible=lambda job: job == "a")
    assert [(each.name, each.total_usd) for each in sums] == [
        (OTHERS, 3.0),
        ("a", 3.0),
        ("", 0.5),
    ]
    by_user = summed(lines, GroupBy.USER, usernames={1: "ann"}, is_visible=lambda _: True)
    assert [(each.name, each.total_usd) for each in by_user] == [("ann", 6.0), ("", 0.5)]
    pools = [line("a", 2.0), line("b", 3.0, pool="lab")]
    by_pool = summed(
        pools, GroupBy.POOL, usernames={}, is_visible=lambda _: True, hidden_pools={"lab"}
    )
    assert [(each.name, each.total_usd) for each in by_pool] == [(OTHERS, 3.0), ("gpu", 2.0)]


@pytest.mark.parametrize(
    ("progress", "is_over", "forecast"), [(0.0, False, None), (0.25, False, 12.0), (0.1, True, 3.0)]
)
def test_a_forecast_needs_progress(progress: float, is_over: bool, forecast: float | None) -> None:
    cost = experiment_cost([line("a", 3.0)], usd_per_hour=1.0, progress=progress, is_over=is_over)
    assert cost.usd == 3.0
    assert cost.forecast_usd == forecast
    assert cost.basis


async def test_costs_are_told_by_month_and_owner(world: ApiWorld) -> None:
    unit = UnitOfWork()
    now = world.clock.now()
    month = f"{now:%Y-%m}"
    for name, kind, usd in (("job", K.BUSY, 3.0), ("", K.BOOT, 1.0)):
        row = {"month": month, "pool": "default", "instance_id": "m", "job_id": name}
        owner = {"user_id": 1 if name else None, "experiment_id": None}
        unit.insert(Cost, {**row, **owner, "kind": kind.value, "usd": usd, "hours": 1.0})
    await world.services.store.commit(unit)
    answer = await world.ok("GET", "/api/v1/windlass/fleet/costs")
    assert answer["month"] == month
    assert answer["total"]["usd"] == 4.0
    (row,) = answer["rows"]
    assert (row["name"], row["busyUsd"], row["bootUsd"]) == ("default", 3.0, 1.0)
    by_user = await world.ok("GET", "/api/v1/windlass/fleet/costs?by=user&month=all")
    assert [each["name"] for each in by_user["rows"]] == ["admin", ""]
    old = await world.ok("GET", "/api/v1/windlass/fleet/costs?month=2001-01")
    assert old["rows"] == []


async def test_costs_by_day_are_those_of_the_month_and_of_the_users(world: ApiWorld) -> None:
    unit = UnitOfWork()
    booked = (
        ("2026-11", "job", 1, K.BUSY, 5.0),
        ("2026-11-01", "job", 1, K.BUSY, 3.0),
        ("2026-11-01", "", None, K.IDLE, 1.0),
        ("2026-11-30", "job", 2, K.BUSY, 2.0),
        ("2026-12-01", "job", 1, K.BUSY, 64.0),
    )
    for day, job, user, kind, usd in booked:
        row = {"month": day, "pool": "default", "instance_id": f"m{user}", "job_id": job}
        more = {"user_id": user, "experiment_id": None, "kind": kind.value}
        unit.insert(Cost, {**row, **more, "usd": usd, "hours": 1.0})
    await world.services.store.commit(unit)
    url = "/api/v1/windlass/fleet/costs?month=2026-11&by="
    found = await world.ok("GET", f"{url}day&users=true")
    names = {user.id: user.username for user in world.services.auth.users()}
    assert [(row["name"], row["usd"], row["byUser"]) for row in found["rows"]] == [
        ("2026-11", 5.0, {names[1]: 5.0}),
        ("2026-11-01", 4.0, {names[1]: 3.0, "": 1.0}),
        ("2026-11-30", 2.0, {names[2]: 2.0}),
    ]
    assert [row["idleUsd"] for row in found["rows"]] == [0.0, 1.0, 0.0]
    assert found["total"]["usd"] == 11.0 == (await world.ok("GET", f"{url}user"))["total"]["usd"]
    months = (await world.ok("GET", f"{url}month"))["rows"]
    assert [(row["name"], row["usd"]) for row in months] == [("2026-11", 11.0), ("2026-12", 64.0)]
    for month in ("0000-01", "9999-12"):
        assert (await world.ok("GET", f"{url.replace('2026-11', month)}day"))["rows"] == []


async def test_a_month_that_is_none_is_refused(world: ApiWorld) -> None:
    answer = await world.call("GET", "/api/v1/windlass/fleet/costs?month=2026-13")
    assert answer.status_code == 400


async def test_the_cost_of_an_experiment_that_is_not_there(world: ApiWorld) -> None:
    answer = await world.call("GET", "/api/v1/windlass/experiments/99/cost")
    assert answer.status_code == 404
