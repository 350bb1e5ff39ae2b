"""What the planner makes of machines that end, and of places for tasks without slots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.core.reasons import ReasonKind
from provisioner.types import Requirements
from tests.fakes.fleet_world import a_gang, an_offer
from tests.fakes.planner_inputs import (
    EIGHT,
    FOUR,
    NOW,
    coming,
    gangs,
    node,
    plan_of,
    pool,
)


def test_what_a_part_filled_machine_cannot_give_away_gets_a_cheaper_one() -> None:
    """Gangs that ask for different things are bought for apart: what is left free on one serves the other."""
    asked = an_offer(4, 3.0, name="asked", gpu_model="A100")
    cheap, small = an_offer(4, 2.9, name="cheap"), an_offer(2, 2.2, name="small")
    picky = a_gang("three", 3, requires=Requirements(gpu_models=frozenset({"A100"})))
    decision = plan_of(pool((picky, a_gang("two", 2), a_gang("one", 1)), (asked, cheap, small)))
    bought = {launch.offer.key.instance_type: launch.claims for launch in decision.launches}
    assert bought == {"asked": (("three", "one"),), "small": (("two",),)}
    assert sum(launch.count for launch in decision.launches) == 2


def test_a_pool_without_places_for_zero_slot_tasks_buys_nothing_for_them() -> None:
    planned = plan_of(pool(gangs(0), (FOUR,), aux_places=0))
    assert planned.launches == ()
    assert planned.reasons["g0"].kind is ReasonKind.NO_SUCH_AGENT
    assert planned.reasons["g0"].text == (
        "pool gpu takes no tasks without slots (max_aux_containers_per_agent is 0)"
    )


def test_zero_slot_places_are_counted_as_the_pool_says() -> None:
    """Three tasks and a gang, one place per machine: the gang's machine and two more."""
    planned = plan_of(pool(gangs(4, 0, 0, 0), (FOUR,), aux_places=1))
    bought = [claims for launch in planned.launches for claims in launch.claims]
    assert bought == [("g0", "g1"), ("g2",), ("g3",)]
    assert set(planned.reasons) == {"g0", "g1", "g2", "g3"}


@pytest.mark.parametrize(
    ("tasks", "places", "machines"), [(3, 1, 3), (3, 2, 2), (3, 100, 1), (100, 1, 100), (17, 8, 3)]
)
def test_tasks_without_slots_alone_get_as_many_machines_as_their_places_need(
    tasks: int, places: int, machines: int
) -> None:
    """As published: ceil(tasks / max_aux_containers_per_agent). docs/differences.md"""
    planned = plan_of(pool(gangs(*[0] * tasks), (FOUR,), aux_places=places))
    assert sum(launch.count for launch in planned.launches) == machines
    held = [len(claims) for launch in planned.launches for claims in launch.claims]
    assert sum(held) == tasks
    assert max(held) <= places


def test_each_machine_of_a_launch_has_places_of_its_own() -> None:
    planned = plan_of(pool(gangs(8, 0, 0, 0), (FOUR,), aux_places=1))
    bought = [claims for launch in planned.launches for claims in launch.claims]
    assert bought == [("g0", "g1"), ("g0", "g2"), ("g3",)]


def test_a_machine_on_its_way_holds_no_more_zero_slot_tasks_than_it_will_take() -> None:
    machines = (coming("i-1", FOUR, "g0"),)
    planned = plan_of(pool(gangs(0, 0), (FOUR,), machines=machines, aux_places=1))
    assert [launch.claims for launch in planned.launches] == [(("g1",),)]


BLOCK = replace(EIGHT, usd_per_hour=1.0, ends_at=NOW + 3600.0)
WALLTIME = replace(FOUR, lifetime_s=1800.0)


def test_no_offer_is_bought_that_ends_before_its_gang_could_use_it() -> None:
    """The block is by far the cheapest, and ends in an hour less the boot."""
    short, long = a_gang("short", 8, least_s=600.0), a_gang("long", 8, least_s=7200.0)
    planned = plan_of(pool((short, long), (BLOCK, EIGHT)))
    assert {launch.claims: launch.offer for launch in planned.launches} == {
        (("short",),): BLOCK,
        (("long",),): EIGHT,
    }


def test_a_gang_over_nodes_and_a_zero_slot_task_look_at_the_end_too() -> None:
    waiting = (a_gang("gang", 8, least_s=7200.0), a_gang("board", 0, least_s=7200.0))
    planned = plan_of(pool(waiting, (WALLTIME,)))
    assert planned.launches == ()
    assert {reason.text for reason in planned.reasons.values()} == {
        "no instance type of the pool runs long enough (needs 120 min)"
    }


def test_a_node_that_ends_soon_is_no_place_for_a_gang_that_needs_longer() -> None:
    ending = node("n", 4, ends_at=NOW + 900.0)
    waiting = (a_gang("short", 4, least_s=600.0), a_gang("long", 4, least_s=1200.0))
    planned = plan_of(pool(waiting, (FOUR,), nodes=(ending,)))
    assert [launch.claims for launch in planned.launches] == [(("long",),)]


def test_a_claim_on_a_machine_that_would_end_too_soon_is_given_up() -> None:
    machines = (coming("i-1", FOUR, "g0", ends_at=NOW + 330.0),)
    planned = plan_of(pool(gangs(4, least_s=600.0), (FOUR,), machines=machines))
    assert [launch.claims for launch in planned.launches] == [(("g0",),)]


def test_what_comes_says_when_it_ends() -> None:
    machines = (coming("i-1", FOUR, ends_at=NOW + 330.0),)
    (told,) = plan_of(pool((), (WALLTIME,), machines=machines)).availabilities
    assert told.ends_at == {"i-1": NOW + 330.0}
    assert told.booting[0].ends_at == NOW + 330.0
    (launchable,) = told.launchable
    assert launchable.ends_at == NOW + launchable.ready_in_s + 1800.0


@pytest.mark.parametrize(("most", "bought"), [(2, 1), (3, 2)])
def test_a_free_machine_is_kept_for_the_larger_gang_where_the_pool_may_buy_too_few(
    most: int, bought: int
) -> None:
    """The smaller one is behind it: on that machine it would wait for the larger one, which would wait for it."""
    waiting = gangs(8, 1)
    decision = plan_of(pool(waiting, (FOUR,), machines=(coming("m1", FOUR),), max_instances=most))
    claims = [launch.claims for launch in decision.launches]
    assert sum(launch.count for launch in decision.launches) == bought
    assert any("g0" in claimed for launch in claims for claimed in launch)
