"""The life of one allocation: the table of ends, and long random walks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.allocations import machine
from master.allocations.clock_jumps import shifted
from master.allocations.effects import (
    AskResources,
    Closed,
    KillContainers,
    SignalPreemption,
    StartContainers,
    Withdraw,
)
from master.allocations.machine import AllocationPhase, AllocationState
from master.allocations.outcome import OutcomeKind
from rm_backends.base import Container, ContainerExit, ContainerPhase, FailureKind
from tests.examples import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OK = ContainerExit(exit_code=0)
BAD = ContainerExit(exit_code=3)
KILLED = ContainerExit(exit_code=137)
AGENT_DIED = ContainerExit(exit_code=None, failure=FailureKind.AGENT_FAILED, message="agent died")


def pending(**changes: object) -> AllocationState:
    state = AllocationState(
        id="1.abc.1", task_id="1.abc", run_id=1, pool="default", slots=2, requested_at=NOW
    )
    return replace(state, **changes)  # type: ignore[arg-type]


def containers(n: int) -> tuple[Container, ...]:
    return tuple(
        Container(container_id=f"c{i}", agent_id=f"a{i}", rank=i, slot_ids=(0,)) for i in range(n)
    )


def grant(n: int = 1) -> AllocationState:
    state, effects = machine.granted(
        pending(), containers(n), token_hash="hash", ports={"C10D_PORT": 29400}
    )
    assert effects == (StartContainers("1.abc.1"),)
    return state


def running(n: int = 1, *, ready: bool = True) -> AllocationState:
    state = grant(n)
    for i in range(n):
        state, _ = machine.container_changed(state, f"c{i}", ContainerPhase.RUNNING, None, now=NOW)
    return machine.marked_ready(state) if ready else state


def exited(state: AllocationState, container: str, exit_: ContainerExit) -> machine.Step:
    return machine.container_changed(state, container, ContainerPhase.TERMINATED, exit_, now=NOW)


@pytest.mark.parametrize("hours", [5, -5])
def test_a_clock_that_is_set_leaves_as_much_time_to_checkpoint(hours: int) -> None:
    state, _ = machine.terminate(running(), "paused", now=NOW)
    by = timedelta(hours=hours)
    state = shifted(state, by, NOW + by)
    deadline = NOW + by + timedelta(seconds=state.preemption_timeout_s)
    assert machine.expired(state, now=deadline - timedelta(seconds=1)) == (state, ())
    late, _ = machine.expired(state, now=deadline)
    assert late.kill_reason == machine.late_text(state)
    ended, _ = machine.lost(late, "gone", now=deadline - timedelta(days=1))
    assert ended.started_at is not None
    assert ended.ended_at == ended.started_at, "set back while the master was away"


def test_a_pull_ends_when_the_last_container_has_its_image() -> None:
    state = grant(2)
    steps = (
        ("c0", ContainerPhase.PULLING),
        ("c1", ContainerPhase.PULLING),
        ("c0", ContainerPhase.STARTING),
        ("c1", ContainerPhase.RUNNING),
        ("c0", ContainerPhase.RUNNING),
    )
    for seconds, (container, phase) in enumerate(steps):
        at = NOW + timedelta(seconds=seconds)
        state, _ = machine.container_changed(state, container, phase, None, now=at)
    assert (state.started_at, state.pulled_at) == (NOW, NOW + timedelta(seconds=3))
    assert running(2).pulled_at is None


def test_quiet_life() -> None:
    state = running()
    assert state.phase is AllocationPhase.RUNNING
    state, effects = exited(state, "c0", OK)
    assert state.outcome is not None
    assert state.outcome.kind is OutcomeKind.FINISHED
    assert effects == (Closed("1.abc.1"),)
    assert state.token_hash is None, "the token dies with the allocation"


@pytest.mark.parametrize(
    ("prepare", "exit_", "kind"),
    [
        ("nothing", OK, OutcomeKind.FINISHED),
        ("nothing", BAD, OutcomeKind.FAILED),
        ("nothing", AGENT_DIED, OutcomeKind.TRANSIENT),
        (
            "nothing",
            ContainerExit(exit_code=None, failure=FailureKind.ABORTED),
            OutcomeKind.TRANSIENT,
        ),
        ("nothing", ContainerExit(exit_code=1, failure=FailureKind.TASK_ERROR), OutcomeKind.FAILED),
        ("preempt", OK, OutcomeKind.FINISHED),
        ("preempt", BAD, OutcomeKind.FAILED),
        ("preempt+ack", OK, OutcomeKind.PREEMPTED),
        ("preempt+ack", BAD, OutcomeKind.PREEMPTED),
        ("kill", KILLED, OutcomeKind.KILLED),
        ("kill", OK, OutcomeKind.KILLED),
    ],
)
def test_how_it_ends(prepare: str, exit_: ContainerExit, kind: OutcomeKind) -> None:
    state = running()
    if "preempt" in prepare:
        state, effects = machine.terminate(state, "paused", now=NOW)
        assert effects == (SignalPreemption("1.abc.1"),)
    if "ack" in prepare:
        state = machine.acknowledged(state)
    if prepare == "kill":
        state, effects = machine.kill(state, "asked", now=NOW)
        assert effects == (KillContainers("1.abc.1"),)
    state, _ = exited(state, "c0", exit_)
    assert state.outcome is not None
    assert state.outcome.kind is kind


def test_a_failure_says_the_cause_that_its_program_named() -> None:
    cause = "ModuleNotFoundError: No module named 'torch'"
    state, _ = exited(running(), "c0", ContainerExit(exit_code=1, message=cause))
    assert state.outcome is not None
    assert state.outcome.error == f"{cause} (exit code 1)"
    assert state.outcome.reason == f"allocation failed: {cause} (exit code 1)"


def test_waiting_is_withdrawn() -> None:
    state, effects = machine.terminate(pending(), "paused", now=NOW)
    assert effects == (Withdraw("1.abc.1"), Closed("1.abc.1"))
    assert state.outcome is not None
    assert state.outcome.kind is OutcomeKind.WITHDRAWN


def test_grant_after_the_end_is_given_back() -> None:
    state, _ = machine.terminate(pending(), "paused", now=NOW)
    after, effects = machine.granted(state, containers(1), token_hash="h", ports={})
    assert after is state
    assert effects == (KillContainers("1.abc.1"),)


def test_not_ready_is_killed_instead_of_preempted() -> None:
    state, effects = machine.terminate(running(ready=False), "paused", now=NOW)
    assert effects == (KillContainers("1.abc.1"),)
    assert state.preempt_reason is None


def test_preemption_timeout_kills() -> None:
    state, _ = machine.terminate(running(), "paused", now=NOW)
    same, effects = machine.expired(state, now=NOW + timedelta(seconds=3599))
    assert same is state
    assert effects == ()
    state, effects = machine.expired(state, now=NOW + timedelta(seconds=3600))
    assert effects == (KillContainers("1.abc.1"),)
    assert state.kill_reason == "allocation did not preempt in 3600s"


def test_a_machine_that_goes_sooner_than_the_preemption_timeout_brings_the_kill_forward() -> None:
    state, effects = machine.terminate(
        running(), "node-1 goes", now=NOW, deadline=NOW + timedelta(seconds=120)
    )
    assert effects == (SignalPreemption("1.abc.1"),)
    assert state.preempt_deadline == NOW + timedelta(seconds=120)
    same, _ = machine.expired(state, now=NOW + timedelta(seconds=119))
    assert same is state
    state, effects = machine.expired(state, now=NOW + timedelta(seconds=120))
    assert effects == (KillContainers("1.abc.1"),)
    assert state.kill_reason == "allocation did not preempt in 120s"


def test_a_deadline_is_only_ever_brought_forward() -> None:
    paused, _ = machine.terminate(running(), "paused", now=NOW)
    later, effects = machine.terminate(paused, "goes", now=NOW, deadline=NOW + timedelta(days=1))
    assert (later, effects) == (paused, ())
    soon = NOW + timedelta(seconds=60)
    sooner, effects = machine.terminate(paused, "goes", now=NOW, deadline=soon)
    assert effects == (SignalPreemption("1.abc.1"),)
    assert (sooner.preempt_deadline, sooner.preempt_reason) == (soon, "goes")
    assert machine.terminate(sooner, "paused", now=NOW) == (sooner, ())


def test_what_cannot_be_preempted_is_told_and_ends_with_its_machine() -> None:
    notebook = replace(running(ready=False), preemptible=False)
    goes = NOW + timedelta(hours=2)
    told, effects = machine.terminate(notebook, "goes", now=NOW, deadline=goes)
    assert effects == (SignalPreemption("1.abc.1"),)
    assert told.preempt_deadline == goes
    assert machine.expired(told, now=goes) == (told, ())
    _, effects = machine.terminate(told, "killed by its user", now=NOW)
    assert effects == (KillContainers("1.abc.1"),)


def test_first_failure_brings_down_the_gang_and_is_the_one_reported() -> None:
    state, effects = exited(running(2), "c1", BAD)
    assert effects == (KillContainers("1.abc.1"),)
    assert state.is_open
    state, _ = exited(state, "c0", KILLED)
    assert state.outcome is not None
    assert state.outcome.kind is OutcomeKind.FAILED
    assert state.outcome.exit_code == 3


def test_daemons_end_with_the_work() -> None:
    state, _ = machine.marked_daemon(running(2), "c1", now=NOW)
    state, effects = exited(state, "c0", OK)
    assert effects == (KillContainers("1.abc.1"),)
    state, _ = exited(state, "c1", KILLED)
    assert state.outcome is not None
    assert state.outcome.kind is OutcomeKind.FINISHED


TERMINATED = ContainerExit(exit_code=241)


@pytest.mark.parametrize(("chief", "kind"), [(OK, OutcomeKind.FINISHED), (BAD, OutcomeKind.FAILED)])
def test_a_daemon_that_a_launcher_ends_first_decides_nothing(
    chief: ContainerExit, kind: OutcomeKind
) -> None:
    state, _ = machine.marked_daemon(running(2), "c1", now=NOW)
    state, effects = exited(state, "c1", TERMINATED)
    assert effects == ()
    state, _ = exited(state, "c0", chief)
    assert state.outcome is not None
    assert state.outcome.kind is kind
    assert state.outcome.exit_code == chief.exit_code


def test_work_that_goes_on_without_its_daemon_is_ended_as_a_failure() -> None:
    state, _ = machine.marked_daemon(running(2), "c1", now=NOW)
    state, _ = exited(state, "c1", TERMINATED)
    assert state.daemon_deadline == NOW + machine.DAEMON_GRACE
    same, effects = machine.expired(state, now=NOW + machine.DAEMON_GRACE / 2)
    assert (same, effects) == (state, ())
    state, effects = machine.expired(state, now=NOW + machine.DAEMON_GRACE)
    assert effects == (KillContainers("1.abc.1"),)
    assert state.daemon_deadline is None
    state, _ = exited(state, "c0", KILLED)
    assert state.outcome is not None
    assert (state.outcome.kind, state.outcome.exit_code) == (OutcomeKind.FAILED, 241)


def test_a_daemon_whose_machine_is_lost_ends_the_work_at_once() -> None:
    state, _ = machine.marked_daemon(running(2), "c1", now=NOW)
    gone = ContainerExit(exit_code=None, failure=FailureKind.AGENT_FAILED)
    _, effects = exited(state, "c1", gone)
    assert effects == (KillContainers("1.abc.1"),)


def test_what_is_refused_for_good_fails_without_another_try() -> None:
    state, effects = machine.refused(pending(), "Slurm refuses its job: Invalid account", now=NOW)
    assert effects == (Withdraw("1.abc.1"), Closed("1.abc.1"))
    assert state.outcome is not None
    assert (state.outcome.kind, state.outcome.final) == (OutcomeKind.FAILED, True)
    assert state.outcome.reason == "allocation failed: Slurm refuses its job: Invalid account"
    assert state.outcome.error == "Slurm refuses its job: Invalid account"


def test_a_refusal_that_comes_after_the_grant_changes_nothing() -> None:
    for state in (grant(), machine.refused(pending(), "no", now=NOW)[0]):
        assert machine.refused(state, "no", now=NOW) == (state, ())


def test_late_and_unknown_reports_change_nothing() -> None:
    state = running()
    for container, phase in [("c0", ContainerPhase.STARTING), ("zzz", ContainerPhase.TERMINATED)]:
        same, effects = machine.container_changed(state, container, phase, OK, now=NOW)
        assert same is state
        assert effects == ()


def test_pending_effects_after_a_restart() -> None:
    assert machine.pending_effects(pending()) == (AskResources("1.abc.1"),)
    assert machine.pending_effects(grant()) == (StartContainers("1.abc.1"),)
    assert machine.pending_effects(running()) == ()
    preempted, _ = machine.terminate(running(), "x", now=NOW)
    assert machine.pending_effects(preempted) == (SignalPreemption("1.abc.1"),)
    killed, _ = machine.kill(running(), "x", now=NOW)
    assert machine.pending_effects(killed) == (KillContainers("1.abc.1"),)


ORDER = list(AllocationPhase)
exits = st.sampled_from([OK, BAD, KILLED, AGENT_DIED])
events = st.one_of(
    st.tuples(st.just("grant"), st.integers(1, 3)),
    st.tuples(
        st.just("container"),
        st.tuples(st.integers(0, 2), st.sampled_from(list(ContainerPhase)), exits),
    ),
    st.tuples(
        st.sampled_from(["ready", "ack", "terminate", "goes", "kill", "lost", "refused", "late"]),
        st.none(),
    ),
    st.tuples(st.just("daemon"), st.integers(0, 2)),
)


@settings(max_examples=examples(300))
@given(st.lists(events, max_size=40))
def test_random_walk_keeps_the_invariants(walk: list[tuple[str, object]]) -> None:
    state, now = pending(), NOW
    closed = 0
    for name, value in walk:
        before, now = state, now + timedelta(minutes=5)
        state, effects = apply(state, name, value, now)
        assert ORDER.index(state.phase) >= ORDER.index(before.phase), "phases only move forward"
        if not before.is_open:
            assert state is before, "what has ended stays as it is"
        closed += sum(isinstance(e, Closed) for e in effects)
        assert (state.outcome is None) == (state.phase is not AllocationPhase.TERMINATED)
        assert state.is_open or state.token_hash is None
        if state.has_slots and all(c.ended for c in state.containers):
            assert not state.is_open, "nothing runs any more, so it is over"
    assert closed == (0 if state.is_open else 1), "it is closed exactly once"
    # Whatever happened, killing it and hearing of every container ends it.
    state, _ = machine.kill(state, "end of test", now=now)
    for i in range(3):
        state, _ = exited(state, f"c{i}", KILLED)
    assert not state.is_open


def apply(state: AllocationState, name: str, value: object, now: datetime) -> machine.Step:
    if name == "grant":
        assert isinstance(value, int)
        return machine.granted(state, containers(value), token_hash="h", ports={})
    if name == "container":
        assert isinstance(value, tuple)
        index, phase, exit_ = value
        final = exit_ if phase is ContainerPhase.TERMINATED else None
        return machine.container_changed(state, f"c{index}", phase, final, now=now)
    if name == "daemon":
        return machine.marked_daemon(state, f"c{value}", now=now)
    steps = {
        "ready": lambda: (machine.marked_ready(state), ()),
        "ack": lambda: (machine.acknowledged(state), ()),
        "terminate": lambda: machine.terminate(state, "t", now=now),
        "goes": lambda: machine.terminate(state, "g", now=now, deadline=now + timedelta(hours=1)),
        "kill": lambda: machine.kill(state, "k", now=now),
        "lost": lambda: machine.lost(state, "l", now=now),
        "refused": lambda: machine.refused(state, "r", now=now),
        "late": lambda: machine.expired(state, now=now),
    }
    return steps[name]()
