"""Other ways to buy machines, and what is drawn of simulations."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from provisioner.simulator.baselines import baselines, dearest_fleet, of_each_size
from provisioner.simulator.machines import Supply
from provisioner.simulator.plots import spent_usd, time_unit, wait_ticks
from provisioner.simulator.replay import Played, play
from provisioner.simulator.report import Summary, summary
from provisioner.types import Market
from tests.fakes.fleet_world import an_offer
from tests.unit.provisioner.test_simulator import BOOT_S, FOUR, ONE, a_job, a_plan, played
from windlass.base.errors import InvalidConfig

WORK = (a_job("a", 0.0, 1, 3600.0), a_job("b", 0.0, 4, 3600.0), a_job("c", 40_000.0, 1, 3600.0))
SPOT = an_offer(4, 1.0, market=Market.SPOT, boot_s=BOOT_S)


def compared(ours: Played, name: str) -> tuple[Played, Summary]:
    jobs = [each.job for each in ours.jobs]
    result = asyncio.run(play(ours.plan, jobs, buyer=baselines(ours)[name]))
    return result, summary(result)


def test_machines_that_are_always_on_make_nobody_wait_and_cost_from_beginning_to_end() -> None:
    ours, told = played(a_plan(ONE, FOUR), *WORK)
    fixed, fixed_told = compared(ours, "always on")
    assert fixed_told.machines == told.most_machines == 2
    assert fixed_told.usd == pytest.approx(5.0 * fixed.ended_s / 3600.0)
    assert {job.job.job_id: job.waited_s for job in fixed.jobs} == {
        "a": BOOT_S,
        "b": BOOT_S,
        "c": 0.0,
    }


def test_the_sum_of_slots_buys_one_type_on_demand() -> None:
    ours, _ = played(a_plan(ONE, FOUR, SPOT), *WORK)
    result, _ = compared(ours, "sum of slots")
    assert {machine.offer.key for machine in result.machines} == {FOUR.key}


def test_the_least_waste_leaves_nothing_unused_if_it_can() -> None:
    ours, _ = played(a_plan(ONE, FOUR), *WORK)
    _, told = compared(ours, "least waste")
    assert told.unused_usd == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["always on", "sum of slots", "least waste"])
def test_a_limit_and_a_stock_hold_for_all(name: str) -> None:
    plan = a_plan(FOUR, max_instances=2, supply=Supply(stock={FOUR.key: 1}))
    ours, _ = played(plan, *(a_job(str(n), 0.0, 4, 3600.0) for n in range(3)))
    _, told = compared(ours, name)
    assert (told.most_machines, told.jobs) == (1, 3)


def test_who_cannot_hold_a_job_says_so() -> None:
    ours, _ = played(a_plan(ONE, FOUR), a_job("six", 0.0, 6, 60.0))
    with pytest.raises(InvalidConfig, match="job six would wait for ever"):
        compared(ours, "sum of slots")


def test_of_each_size_the_cheapest_that_is_sold_on_demand() -> None:
    dear = an_offer(4, 9.0, zone="b")
    assert of_each_size([SPOT, dear, FOUR, ONE]) == [ONE, FOUR]
    assert of_each_size([SPOT, ONE]) == [ONE, SPOT]


def test_the_dearest_fleet_is_one_of_an_instant() -> None:
    ours, _ = played(a_plan(ONE, FOUR), a_job("a", 0.0, 1, 600.0), a_job("b", 90_000.0, 4, 600.0))
    assert dearest_fleet(ours) == {("gpu", FOUR.key): 1}


def test_samples_show_what_lasted_and_sum_up_to_the_cost() -> None:
    """A job that starts soon after a sample runs for days: nothing else happens that would be one."""
    ours, told = played(a_plan(ONE), a_job("a", 0.0, 1, 10 * 86_400.0), a_job("b", 5e5, 1, 60.0))
    long = [
        (one, after) for one, after in pairwise(ours.samples) if after.at_s - one.at_s > 86_400.0
    ]
    assert long
    assert all((one.waiting_slots, one.busy_slots) == (0, 1) for one, _ in long)
    assert spent_usd(ours.samples)[-1] == pytest.approx(told.usd, rel=0.01)


def test_axes() -> None:
    assert time_unit(7200.0) == ("hours", 3600.0)
    assert time_unit(90 * 86_400.0) == ("days", 86_400.0)
    assert wait_ticks(0.0) == [0.0]
    assert wait_ticks(31.0) == [0.0, 1.0, 3.0, 10.0, 30.0, 60.0]
    assert wait_ticks(1e9)[-1] == 144_000.0


def test_all_panels_share_one_time_axis_and_lines_are_steps() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra `simulate`)")
    from provisioner.simulator.plots import slots_and_costs

    ours, _ = played(a_plan(ONE, FOUR), *WORK)
    figure = slots_and_costs({"one": ours, "two": compared(ours, "least waste")[0]})
    first, *others = figure.axes
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "slots",
        "slots",
        "USD an hour",
        "USD so far",
    ]
    assert all(first.get_shared_x_axes().joined(first, axis) for axis in others)
    for axis in figure.axes[:3]:
        assert all(line.get_drawstyle() == "steps-post" for line in axis.get_lines())
