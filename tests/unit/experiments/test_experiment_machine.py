"""Experiments as pure steps: what each event does, and random lives that must all end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.allocations import machine as allocation
from master.allocations.effects import AskResources, Closed, KillContainers, SignalPreemption
from master.core.jobs import SetPool
from master.core.searcher.event_json import action_to_json
from master.core.searcher.search import replay
from master.core.searcher.types import ExitReason
from master.experiments.lifecycle import machine, resources
from master.experiments.lifecycle.deadlines import INVALID_HP_GRACE
from master.experiments.lifecycle.state import Phase
from rm_backends.base import Container, FailureKind, LossKind
from tests.examples import examples
from tests.fakes.pure_experiment import ASHA, START, PureExperiment


def test_a_single_trial_runs_and_completes() -> None:
    world = PureExperiment()
    assert world.effects == [AskResources(world.run_of().id)]
    world.start()
    world.exit()
    assert world.trial().phase is Phase.COMPLETED
    assert world.state.phase is Phase.COMPLETED
    assert world.state.progress == 1.0


def test_failures_are_retried_up_to_max_restarts_then_end_the_experiment() -> None:
    world = PureExperiment(max_restarts=2)
    for restart in range(2):
        world.start()
        world.exit(code=1)
        assert world.trial().restarts == restart + 1
        assert world.run_of().run_id == restart + 2
        assert world.run_of().is_open
    world.start()
    world.exit(code=1)
    assert world.trial().phase is Phase.ERROR
    assert world.state.phase is Phase.ERROR
    cause = "container failed with non-zero exit code: 1"
    assert world.state.error == f"every trial of the search failed: {cause}"


def test_a_lost_agent_does_not_count() -> None:
    world = PureExperiment(max_restarts=0)
    world.start()
    world.exit(code=None, failure=FailureKind.AGENT_FAILED)
    assert world.trial().phase is Phase.ACTIVE
    assert world.trial().restarts == 0
    assert world.run_of().run_id == 2


def lose(world: PureExperiment) -> None:
    world.start()
    world.exit(code=None, failure=FailureKind.AGENT_FAILED, message="spot machine gone")


def checkpoint(world: PureExperiment, uuid: str, steps: int) -> None:
    name = world.trial().request_id
    world.do(lambda s, e: machine.checkpoint_reported(s, e, name, uuid, steps))


def test_a_trial_that_is_lost_again_and_again_without_a_checkpoint_fails() -> None:
    world = PureExperiment(max_restarts=0)
    world.max_lost_runs = 2
    for _ in range(2):
        lose(world)
        assert world.trial().phase is Phase.ACTIVE
    lose(world)
    assert world.state.phase is Phase.ERROR
    assert world.trial().error.startswith(
        "its allocations were lost or preempted 3 times without a new checkpoint: "
    )
    assert world.trial().restarts == 0


def test_a_new_checkpoint_forgives_the_losses_before_it_and_the_same_one_does_not() -> None:
    world = PureExperiment(max_restarts=0)
    world.max_lost_runs = 1
    for number in range(4):
        lose(world)
        checkpoint(world, f"uuid-{number}", number)
    assert world.trial().phase is Phase.ACTIVE
    lose(world)
    checkpoint(world, "uuid-3", 3)
    lose(world)
    assert world.trial().phase is Phase.ERROR


def time_out(world: PureExperiment) -> None:
    """The time of its batch job is over, as the site says."""
    kind = LossKind.TIME_LIMIT
    world.on_run(
        world.trial(), lambda s: allocation.lost(s, "job 5 timed out", now=world.now, kind=kind)
    )


def test_a_leg_that_ends_with_its_time_and_no_new_checkpoint_is_a_restart() -> None:
    world = PureExperiment(max_restarts=1)
    world.max_lost_runs = 0
    world.start()
    time_out(world)
    assert (world.trial().phase, world.trial().restarts) == (Phase.ACTIVE, 1)
    world.start()
    time_out(world)
    assert world.state.phase is Phase.ERROR
    assert world.trial().error == (
        "no new checkpoint within the time of its batch job (job 5 timed out): "
        "give it more time, or save checkpoints more often"
    )


def test_legs_that_get_on_follow_each_other_for_ever() -> None:
    """A week of training in jobs of four hours."""
    world = PureExperiment(max_restarts=0)
    world.max_lost_runs = 0
    for number in range(20):
        world.start()
        checkpoint(world, f"uuid-{number}", number)
        time_out(world)
        assert (world.trial().phase, world.trial().restarts) == (Phase.ACTIVE, 0)


@pytest.mark.parametrize("saves", [False, True])
def test_what_is_killed_at_the_end_of_its_time_must_have_saved(saves: bool) -> None:
    """The master ends it, before the site does."""
    world = PureExperiment(max_restarts=3)
    world.start()
    end = world.now + timedelta(minutes=5)
    world.on_run(
        world.trial(),
        lambda s: allocation.terminate(
            s, "ends", now=world.now, deadline=end, kind=LossKind.TIME_LIMIT
        ),
    )
    if saves:
        checkpoint(world, "uuid", 5)
    world.now = end
    world.tick()
    world.exit(code=137)
    assert (world.trial().phase, world.trial().restarts) == (Phase.ACTIVE, 0 if saves else 1)


def take_slots(world: PureExperiment, *, why: str = "a job of higher priority") -> None:
    """Others want them, whether or not the trial is ready."""
    world.on_run(world.trial(), lambda s: allocation.terminate(s, why, now=world.now))


@pytest.mark.parametrize("ready", [False, True], ids=["starting", "at work"])
@pytest.mark.parametrize("max_restarts", [0, 1])
def test_legs_of_a_short_batch_job_that_save_nothing_end_the_trial(
    ready: bool, max_restarts: int
) -> None:
    """A walltime that holds no checkpoint submitted job after job: the trial left each one as it was asked to."""
    world = PureExperiment(max_restarts=max_restarts)
    for leg in range(max_restarts + 1):
        assert (world.trial().phase, world.trial().restarts) == (Phase.ACTIVE, leg)
        world.start(ready=ready)
        end = world.now + timedelta(minutes=3)
        world.on_run(
            world.trial(),
            lambda s, e=end: allocation.terminate(
                s, "agent a ends", now=world.now, deadline=e, kind=LossKind.TIME_LIMIT
            ),
        )
        if ready:
            world.acknowledge()
        world.exit(code=0 if ready else 137)
    assert world.trial().phase is Phase.ERROR
    assert world.trial().error.startswith("no new checkpoint within the time of its batch job (")


@pytest.mark.parametrize("ready", [False, True], ids=["killed at its start", "leaves"])
def test_a_trial_that_never_saves_is_not_preempted_for_ever(ready: bool) -> None:
    world = PureExperiment(max_restarts=0)
    world.max_lost_runs = 3
    for _ in range(4):
        assert world.trial().phase is Phase.ACTIVE
        world.start(ready=ready)
        take_slots(world)
        if ready:
            world.acknowledge()
        world.exit(code=0 if ready else 137)
    assert world.trial().phase is Phase.ERROR
    assert world.trial().error.startswith(
        "its allocations were lost or preempted 4 times without a new checkpoint: allocation "
    )
    assert world.trial().error.endswith("a job of higher priority")
    assert world.trial().restarts == 0


def test_preemption_after_a_new_checkpoint_and_pauses_are_never_counted() -> None:
    world = PureExperiment(max_restarts=0)
    world.max_lost_runs = 0
    for number in range(5):
        world.start()
        take_slots(world)
        checkpoint(world, f"uuid-{number}", number)
        world.acknowledge()
        world.exit()
        world.start(ready=False)
        world.do(machine.pause)
        world.exit(code=137)
        world.do(machine.activate)
    assert (world.trial().phase, world.trial().lost_runs) == (Phase.ACTIVE, 0)


@pytest.mark.parametrize("late", [False, True])
def test_the_next_run_knows_how_long_leaving_took(late: bool) -> None:
    world = PureExperiment(preemption_timeout_s=40.0)
    world.start()
    take_slots(world)
    world.now += timedelta(seconds=40 if late else 25)
    if late:
        world.tick()
    else:
        world.acknowledge()
    world.exit(code=137 if late else 0)
    assert world.run_of().leave_took_s == (40.0 if late else 25.0)
    world.start()
    world.exit(code=1)
    assert world.run_of().leave_took_s == (40.0 if late else 25.0), "of the last one that was asked"


def refuse(world: PureExperiment, agent: str, message: str) -> None:
    """Its node cannot start it."""
    trial = world.trial()
    box = (Container(container_id=f"c-{trial.id}", agent_id=agent, rank=0),)
    world.on_run(trial, lambda s: allocation.granted(s, box, token_hash="h", ports={}))
    world.exit(code=None, failure=FailureKind.ABORTED, message=message)


@pytest.mark.parametrize("agents", [("a", "a", "a"), ("a", "b")])
def test_what_fails_the_same_way_at_each_start_ends_the_trial_with_its_cause(
    agents: tuple[str, ...],
) -> None:
    """Another machine would only cost money."""
    world = PureExperiment(max_restarts=5)
    for number, agent in enumerate(agents):
        assert world.trial().phase is Phase.ACTIVE
        refuse(world, agent, f"cannot mount /data of {agent} for 1.7f3a9b2c44.{number}")
        world.sit_out_the_pause()
    trial = world.trial()
    assert (trial.phase, trial.restarts) == (Phase.ERROR, 0)
    where = "3 times in a row on a" if len(agents) == 3 else "on 2 nodes (a, b)"
    assert trial.error.startswith(f"it could not be started {where}: cannot mount /data of ")


def test_different_failures_at_the_start_are_tried_again() -> None:
    world = PureExperiment()
    for message in ("disk full", "no such device", "disk full", "no such device"):
        refuse(world, "a", message)
        world.sit_out_the_pause()
    assert world.trial().phase is Phase.ACTIVE


def test_runs_that_cannot_even_start_end_the_trial_at_last() -> None:
    world = PureExperiment()
    for _ in range(world.max_lost_runs + 1):
        trial = world.trial()
        box = (Container(container_id=f"c-{trial.id}", agent_id="a", rank=0),)
        world.on_run(trial, lambda s, b=box: allocation.granted(s, b, token_hash="h", ports={}))
        world.on_run(trial, lambda s: allocation.lost(s, "no disk", now=world.now))
        world.sit_out_the_pause()
    assert world.trial().phase is Phase.ERROR
    assert "no disk" in world.trial().error


def test_runs_refused_by_their_agent_end_the_trial_at_last() -> None:
    """However far the agent got with them: a broken node must not spin for ever."""
    world = PureExperiment()
    world.max_lost_runs = 2
    for number in range(3):
        assert world.trial().phase is Phase.ACTIVE
        (world.start if number % 2 else world.start_and_wait)()
        world.exit(code=None, failure=FailureKind.ABORTED, message="no disk")
        world.sit_out_the_pause()
    assert world.trial().phase is Phase.ERROR
    assert "no disk" in world.trial().error


def test_pause_preempts_and_activate_resumes_from_the_checkpoint() -> None:
    world = PureExperiment()
    world.start()
    name = world.trial().request_id
    world.do(lambda s, e: machine.checkpoint_reported(s, e, name, "uuid-1", 10))
    assert world.do(machine.pause) == [SignalPreemption(world.run_of().id)]
    world.acknowledge()
    world.exit()
    assert world.state.phase is Phase.PAUSED
    assert world.trial().open_allocation is None
    assert world.trial().phase is Phase.ACTIVE
    assert world.do(machine.activate) == [AskResources(f"{world.trial().task_id}.2")]
    assert world.trial().latest_checkpoint == "uuid-1"
    assert world.trial().restarts == 0


def test_exit_zero_without_acknowledgement_is_completion_even_when_paused() -> None:
    world = PureExperiment()
    world.start()
    world.do(machine.pause)
    world.exit()
    assert world.trial().phase is Phase.COMPLETED


def test_kill_ends_everything() -> None:
    world = PureExperiment(ASHA)
    world.start(0)
    kinds = {type(e) for e in world.do(machine.kill)}
    assert KillContainers in kinds
    assert Closed in kinds
    assert world.state.phase is Phase.STOPPING_KILLED
    world.exit(0, 137)
    assert world.state.phase is Phase.CANCELED
    assert {t.phase for t in world.state.trials.values()} == {Phase.CANCELED}
    assert world.do(machine.kill) == [], "killing what is over is as asked"


def test_asha_stops_a_trial_by_preemption_and_starts_its_successor() -> None:
    world = PureExperiment(ASHA)
    assert len(world.state.trials) == 4
    for i in range(4):
        world.start(i)
    world.validate(0, loss=0.1, epochs=2)
    world.validate(1, loss=0.9, epochs=2)
    assert SignalPreemption(world.run_of(1).id) in world.effects
    assert world.trial(1).phase is Phase.STOPPING_COMPLETED
    assert len(world.state.trials) == 5
    world.acknowledge(1)
    world.exit(1)
    assert world.trial(1).phase is Phase.COMPLETED, "an acknowledged stop is not run again"
    before = world.state
    world.validate(1, loss=0.0, epochs=4)
    assert world.state == before, "reports of a stopped trial are nothing to the search"


def test_a_missing_metric_ends_the_experiment_with_a_reason() -> None:
    world = PureExperiment(ASHA)
    for i in range(4):
        world.start(i)
    world.validate(0, accuracy=0.1)
    assert world.state.phase is Phase.STOPPING_ERROR
    assert "loss" in world.state.error
    for i in range(4):
        world.exit(i, 137)
    assert world.state.phase is Phase.ERROR


def test_invalid_hyperparameters_are_replaced_and_killed_if_they_stay() -> None:
    world = PureExperiment(ASHA)
    for i in range(4):
        world.start(i)
    name = world.trial(2).request_id
    world.do(lambda s, e: machine.early_exit_reported(s, e, name, ExitReason.INVALID_HP))
    assert world.tick() == []
    due = world.deadlines.next()
    assert due is not None
    assert due == START + INVALID_HP_GRACE
    world.now = due
    assert world.tick() == [KillContainers(world.run_of(2).id)]
    world.exit(2, 137)
    assert world.trial(2).phase is Phase.COMPLETED
    assert len(world.state.trials) == 5


def test_late_events_of_an_old_run_raise_key_error_for_the_caller() -> None:
    world = PureExperiment(max_restarts=3)
    world.start()
    old = world.run_of().id
    world.exit(code=1)
    with pytest.raises(KeyError):
        world.do(lambda s, e: machine.allocation_event(s, e, old, lambda a: (a, ())))


choices = st.tuples(
    st.sampled_from(
        [
            "start",
            "exit0",
            "exit1",
            "lost",
            "ack",
            "validate",
            "pause",
            "activate",
            "invalid",
            "tick",
            "move",
        ]
    ),
    st.integers(0, 11),
    st.floats(0, 1),
)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(choices, max_size=80), st.sampled_from(["finish", "cancel", "kill"]))
def test_every_life_ends(walk: list[tuple[str, int, float]], ending: str) -> None:
    world = PureExperiment(ASHA, max_restarts=1)
    for name, index, value in walk:
        act(world, name, index % len(world.state.trials), value)
        check(world)
    if ending != "finish":
        world.do(machine.cancel if ending == "cancel" else machine.kill)
    elif world.state.phase is Phase.PAUSED:
        world.do(machine.activate)
    for _ in range(400):
        if world.state.phase.is_terminal:
            break
        world.now += timedelta(minutes=1)
        world.tick()
        for i, trial in enumerate(list(world.state.trials.values())):
            if trial.open_allocation is None:
                continue
            act(world, "start", i, 0)
            act(world, "validate", i, 0.5)
            act(world, "ack", i, 0)
            act(world, "exit0", i, 0)
        check(world)
    assert world.state.phase.is_terminal
    assert all(t.phase.is_terminal for t in world.state.trials.values())
    assert all(t.open_allocation is None for t in world.state.trials.values())
    _, actions = replay(world.search, [e.event for e in world.log])
    assert [[action_to_json(a) for a in batch] for batch in actions] == [
        [action_to_json(a) for a in logged.actions] for logged in world.log
    ], "the logged events alone reproduce every action"


def act(world: PureExperiment, name: str, index: int, value: float) -> None:
    trial = world.trial(index)
    run = trial.open_allocation
    world.now += timedelta(seconds=1)
    if name in ("pause", "activate"):
        if world.state.phase in (Phase.ACTIVE, Phase.PAUSED):
            world.do(machine.pause if name == "pause" else machine.activate)
    elif name == "move":
        pool = f"pool-{index % 2}"
        if pool != world.state.settings.pool and not world.state.phase.is_terminal:
            world.do(lambda s, e: resources.change_pool(s, e, SetPool(pool)))
    elif name == "tick":
        world.tick()
    elif run is None:
        return
    elif name == "start" and not run.has_slots:
        world.start(index)
    elif not run.has_slots:
        return
    elif name == "exit0":
        world.exit(index, 0)
    elif name == "exit1":
        world.exit(index, 1)
    elif name == "lost":
        world.on_run(trial, lambda s: allocation.lost(s, "gone", now=world.now))
    elif name == "ack":
        world.acknowledge(index)
    elif name == "validate":
        world.validate(index, loss=value, epochs=int(value * 8) + 1)
    elif name == "invalid":
        request_id = trial.request_id
        world.do(lambda s, e: machine.early_exit_reported(s, e, request_id, ExitReason.INVALID_HP))


def check(world: PureExperiment) -> None:
    state = world.state
    for trial in state.trials.values():
        run = trial.allocation
        assert run is None or run.run_id == trial.run_id, "only the newest run is kept"
        if trial.phase.is_terminal:
            assert trial.open_allocation is None, "what is over holds nothing"
        elif state.phase is Phase.ACTIVE:
            waits = trial.not_before is not None and trial.aborts > 0
            held = trial.open_allocation
            assert held is not None or waits, "an active trial runs or waits"
            leaves = held is None or held.preempt_requested or held.kill_reason is not None
            at_home = held is None or held.pool == world.state.settings.pool
            assert at_home or leaves, "what is in another pool is asked to leave"
        elif state.phase is Phase.PAUSED:
            held = trial.open_allocation
            stopping = held is None or held.preempt_requested or held.kill_reason is not None
            assert stopping, "a paused trial is asked to leave"
    assert 0.0 <= state.progress <= 1.0
    created = sum(len([a for a in e.actions if hasattr(a, "trial_seed")]) for e in world.log)
    assert created == len(state.trials), "no trial without its create"
