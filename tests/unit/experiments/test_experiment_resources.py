"""Changes of an experiment's place in the queue, as pure steps."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from master.allocations import machine as allocation
from master.allocations.effects import (
    AskResources,
    Closed,
    KillContainers,
    SignalPreemption,
    Withdraw,
)
from master.allocations.machine import AllocationState
from master.core.jobs import JobChange, SetMaxSlots, SetPlace, SetPool, SetPriority, SetWeight
from master.experiments.lifecycle import machine, resources
from master.experiments.lifecycle.releases import last_asked_by_others
from master.experiments.lifecycle.state import ExperimentState, Phase
from rm_backends.base import Container, ContainerPhase
from tests.fakes.pure_experiment import ASHA, PureExperiment
from windlass.base.errors import InvalidArgument, InvalidState

PLACE = Decimal("1767225600.25")


def change(world: PureExperiment, wanted: JobChange) -> ExperimentState:
    world.do(lambda s, e: resources.change(s, e, wanted))
    return world.state


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ({}, SetPriority(7), {"priority": 7}),
        (
            {"queue_position": PLACE, "priority": 5},
            SetPriority(7),
            {"priority": 7, "queue_position": None},
        ),
        ({"queue_position": PLACE, "priority": 7}, SetPriority(7), {}),
        ({}, SetWeight(2.5), {"weight": 2.5}),
        ({"weight": 2.5}, SetWeight(2.5), {}),
        ({"queue_position": PLACE}, SetWeight(2.5), {"weight": 2.5}),
        ({}, SetMaxSlots(0), {"max_slots": 0}),
        ({"max_slots": 8}, SetMaxSlots(None), {"max_slots": None}),
        ({"max_slots": 8}, SetMaxSlots(8), {}),
        ({"priority": 5}, SetPlace(PLACE, None), {"queue_position": PLACE}),
        ({"priority": 5}, SetPlace(PLACE, 5), {"queue_position": PLACE}),
        ({"priority": 5}, SetPlace(PLACE, 7), {"queue_position": PLACE, "priority": 7}),
        ({"queue_position": PLACE}, SetPlace(PLACE, None), {}),
    ],
)
def test_what_a_change_changes(
    before: dict[str, Any], wanted: JobChange, after: dict[str, Any]
) -> None:
    world = PureExperiment(**before)
    old = world.state
    new = change(world, wanted)
    assert new.settings == replace(old.settings, **after)
    assert (new is old) is (after == {})
    assert world.effects == [], "what runs or waits is not touched"


@pytest.mark.parametrize("place", ["NaN", "Infinity", "-Infinity"])
def test_a_place_is_a_number(place: str) -> None:
    world = PureExperiment()
    with pytest.raises(InvalidArgument, match="finite"):
        change(world, SetPlace(Decimal(place), None))


@pytest.mark.parametrize(
    "wanted",
    [SetPriority(7), SetWeight(2.0), SetMaxSlots(1), SetPool("other"), SetPlace(PLACE, None)],
)
def test_what_is_over_has_no_place_any_more(wanted: JobChange) -> None:
    world = PureExperiment()
    world.start()
    world.exit()
    with pytest.raises(InvalidState, match="Experiment 1 has already completed"):
        change(world, wanted)


def test_the_same_pool_is_no_move() -> None:
    with pytest.raises(InvalidArgument, match="in resource pool 'default' already"):
        change(PureExperiment(), SetPool("default"))


def test_what_waits_asks_in_the_new_pool_at_once() -> None:
    world = PureExperiment(weight=3.0, priority=7, max_slots=4, queue_position=PLACE)
    old, before = world.run_of(), world.state.settings
    change(world, SetPool("other"))
    assert world.effects == [
        Withdraw(old.id),
        Closed(old.id),
        AskResources(world.run_of().id),
    ]
    assert (world.run_of().pool, world.run_of().run_id) == ("other", 2)
    assert world.state.settings == replace(before, pool="other")
    assert world.trial().restarts == 0


def test_what_runs_leaves_gracefully_then_asks_in_the_new_pool() -> None:
    world = PureExperiment(max_restarts=0)
    world.start()
    old = world.run_of()
    change(world, SetPool("other"))
    assert world.effects == [SignalPreemption(old.id)]
    assert world.run_of().preempt_reason == "moved to resource pool other"
    world.acknowledge()
    world.exit(code=0)
    assert world.effects == [Closed(old.id), AskResources(world.run_of().id)]
    assert world.run_of().pool == "other"
    world.start()
    world.exit()
    assert world.state.phase is Phase.COMPLETED
    assert world.trial().restarts == 0


def test_what_is_not_ready_yet_is_killed_and_does_not_count() -> None:
    world = PureExperiment(max_restarts=0)
    world.start(ready=False)
    old = world.run_of()
    change(world, SetPool("other"))
    assert world.effects == [KillContainers(old.id)]
    world.exit(code=137)
    assert world.run_of().pool == "other"
    assert world.trial().restarts == 0


def test_a_run_that_is_killed_for_staying_too_long_moves_too() -> None:
    world = PureExperiment(max_restarts=0)
    world.start()
    change(world, SetPool("other"))
    due = world.deadlines.next()
    assert due is not None
    world.now = due
    assert world.tick() == [KillContainers(world.run_of().id)]
    world.exit(code=137)
    assert (world.run_of().pool, world.trial().restarts) == ("other", 0)


def test_moving_there_and_back_while_it_leaves_ends_where_it_began() -> None:
    world = PureExperiment()
    world.start()
    change(world, SetPool("other"))
    change(world, SetPool("default"))
    assert world.effects == []
    world.acknowledge()
    world.exit()
    assert world.run_of().pool == "default"
    assert world.trial().phase is Phase.ACTIVE


def test_a_paused_experiment_just_changes() -> None:
    world = PureExperiment()
    world.do(machine.pause)
    change(world, SetPool("other"))
    assert world.effects == []
    world.do(machine.activate)
    assert world.run_of().pool == "other"
    assert world.effects == [AskResources(world.run_of().id)]


def test_what_is_leaving_for_good_is_not_moved() -> None:
    world = PureExperiment()
    world.start()
    world.do(machine.cancel)
    change(world, SetPool("other"))
    assert world.effects == []
    world.acknowledge()
    world.exit()
    assert world.state.phase is Phase.CANCELED


def test_every_trial_of_a_search_moves() -> None:
    world = PureExperiment(ASHA)
    world.start(0)
    change(world, SetPool("other"))
    pools = [world.run_of(i).pool for i in range(len(world.state.trials))]
    assert pools == ["default", "other", "other", "other"]


def test_settling_ends_what_is_in_another_pool_than_it_should() -> None:
    """As after a restart of a master that had committed no more than the new pool."""
    world = PureExperiment()
    world.start()
    old = world.run_of()
    world.state = replace(world.state, settings=replace(world.state.settings, pool="other"))
    assert world.do(machine.settle) == [SignalPreemption(old.id)]
    assert world.do(machine.settle) == []


def ask(world: PureExperiment, why: str) -> None:
    world.on_run(world.trial(), partial(allocation.terminate, reason=why, now=world.now))


def test_the_last_release_is_the_newest_that_others_asked_for() -> None:
    world = PureExperiment()
    assert world.state.last_release == ""
    world.start()
    ask(world, "job a is above its share")
    assert world.state.last_release == "job a is above its share"
    assert last_asked_by_others([world.run_of()]) == "job a is above its share"
    world.acknowledge()
    world.exit()
    world.start(ready=False)
    ask(world, "priority 1 needs the slots")
    assert world.state.last_release == "priority 1 needs the slots"
    world.exit(code=137)
    world.start()
    world.exit(code=1)
    assert world.state.last_release == "priority 1 needs the slots"


def test_what_the_experiment_itself_ends_is_no_release() -> None:
    world = PureExperiment()
    world.start()
    world.do(machine.pause)
    assert last_asked_by_others([world.run_of()]) == ""
    world.acknowledge()
    world.exit()
    world.do(machine.activate)
    world.start()
    change(world, SetPool("other"))
    assert last_asked_by_others([world.run_of()]) == ""
    assert world.state.last_release == ""


def fallen_back(**run: Any) -> PureExperiment:
    """Its own pool is `default`; it runs in `other`."""
    world = PureExperiment(**run)
    box = (Container(container_id=f"c-{world.trial().id}", agent_id="a", rank=0, slot_ids=(0,)),)

    def elsewhere(state: AllocationState) -> allocation.Step:
        return allocation.granted(
            state, box, token_hash="h", ports={}, pool="other", why="over quota"
        )

    world.on_run(world.trial(), elsewhere)
    world.report(0, ContainerPhase.RUNNING)
    world.on_run(world.trial(), lambda s: (allocation.marked_ready(s), ()))
    return world


def test_a_run_in_another_pool_than_its_experiments_is_not_ended() -> None:
    world = fallen_back()
    run = world.run_of()
    assert (run.pool, run.current_pool, run.fell_back_because) == ("default", "other", "over quota")
    world.do(machine.settle)
    assert world.effects == []
    assert world.run_of() is run


def test_after_a_preemption_there_it_asks_at_home() -> None:
    world = fallen_back(max_restarts=0)
    world.on_run(
        world.trial(), lambda s: allocation.terminate(s, "a more important job", now=world.now)
    )
    world.acknowledge()
    world.exit()
    again = world.run_of()
    assert world.effects[-1] == AskResources(again.id)
    assert (again.run_id, again.pool, again.granted_pool) == (2, "default", None)


def test_moving_it_into_the_pool_where_it_runs_makes_that_its_own() -> None:
    world = fallen_back()
    run = world.run_of()
    change(world, SetPool("other"))
    assert world.effects == [AskResources(run.id)], "the resource manager hears of it"
    assert world.run_of() == replace(run, pool="other", granted_pool=None, fell_back_because="")
    world.do(machine.settle)
    assert world.effects == []
    change(world, SetPool("default"))
    assert world.effects == [SignalPreemption(run.id)]


def test_moving_it_to_a_third_pool_ends_it_there() -> None:
    world = fallen_back()
    change(world, SetPool("third"))
    assert world.effects == [SignalPreemption(world.run_of().id)]


def test_what_leaves_is_not_kept_by_moving_it_to_where_it_was() -> None:
    world = fallen_back()
    change(world, SetPool("third"))
    change(world, SetPool("other"))
    assert world.run_of().preempt_requested
    world.acknowledge()
    world.exit()
    assert world.run_of().pool == "other"
