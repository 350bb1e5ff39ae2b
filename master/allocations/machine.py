"""The life of one allocation, as a pure state machine.

    PENDING --> ASSIGNED --> PULLING --> STARTING --> RUNNING --> TERMINATING --> TERMINATED

The phase only moves forward (the most progressed container tells). Events come from the resource manager, from the
task itself (ready, acknowledged preemption) and from whoever wants it to end. Every function returns the new state and
the effects to carry out once the state is committed; effects can be repeated safely.

How it ended is decided once, in `_outcome`, first match wins (the order is part of the REST contract's semantics):
an exit by our kill is no failure, an acknowledged preemption is one of ours whatever the exit code, exit 0 is the
user's own end, and only then do exit codes and lost agents count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from master.allocations.effects import (
    AskResources,
    Closed,
    Effect,
    Effects,
    KillContainers,
    SignalPreemption,
    StartContainers,
    Withdraw,
)
from master.allocations.outcome import Outcome, OutcomeKind
from rm_backends.base import (
    Container,
    ContainerExit,
    ContainerPhase,
    FailureKind,
    FellBack,
    LossKind,
)


class AllocationPhase(StrEnum):
    PENDING = "PENDING"
    ASSIGNED = "ASSIGNED"
    PULLING = "PULLING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"


DAEMON_GRACE = timedelta(seconds=30)
"""How long containers may go on after one that serves them has failed: a launcher may be about to end."""
_ORDER = {phase: rank for rank, phase in enumerate(AllocationPhase)}
_CONTAINER_ORDER = {phase: rank for rank, phase in enumerate(ContainerPhase)}
_PHASE_OF_CONTAINER = {
    ContainerPhase.ASSIGNED: AllocationPhase.ASSIGNED,
    ContainerPhase.PULLING: AllocationPhase.PULLING,
    ContainerPhase.STARTING: AllocationPhase.STARTING,
    ContainerPhase.RUNNING: AllocationPhase.RUNNING,
    ContainerPhase.TERMINATED: AllocationPhase.TERMINATING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProgress:
    container: Container
    phase: ContainerPhase = ContainerPhase.ASSIGNED
    exit: ContainerExit | None = None
    daemon: bool = False
    """A worker that only serves the others: ended when they have ended."""
    killed_by_us: bool = False

    @property
    def ended(self) -> bool:
        return self.phase is ContainerPhase.TERMINATED

    @property
    def daemon_failed(self) -> bool:
        """It served others and ended with a bad exit code, and nothing else is known to be wrong."""
        return self.daemon and bool(self.exit and self.exit.exit_code and not self.exit.failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationState:
    """Everything about one allocation that must survive a restart."""

    id: str
    task_id: str
    run_id: int
    pool: str
    """Its own pool, where it was asked for."""
    slots: int
    requested_at: datetime
    preemptible: bool = True
    preemption_timeout_s: float = 3600.0
    leave_took_s: float | None = None
    """How long the run before it took to leave. Not stored: after a restart the usual lead counts."""
    phase: AllocationPhase = AllocationPhase.PENDING
    token_hash: str | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    containers: tuple[ContainerProgress, ...] = ()
    granted_pool: str | None = None
    """Where its slots are, if it fell back to another pool; None: in `pool`."""
    fell_back_because: str = ""
    """Why not in `pool`."""
    ready: bool = False
    os_user: str = ""
    """The name of whom it runs as, as it told itself; empty: it has not."""
    preempt_reason: str | None = None
    """Set: the task was asked to checkpoint and leave; why it has the deadline that it has."""
    preempt_asked_at: datetime | None = None
    preempt_deadline: datetime | None = None
    """It is killed then: its preemption_timeout after it was asked, or when its machine goes, if that is earlier."""
    acknowledged: bool = False
    kill_reason: str | None = None
    """Set: SIGKILL was ordered."""
    killed_first: bool = False
    """The kill came before any container had exited by itself."""
    failure: ContainerExit | None = None
    """The first bad exit."""
    daemon_failed_at: datetime | None = None
    """A daemon ended badly while those that it served went on."""
    lost_reason: str | None = None
    loss: LossKind = LossKind.MACHINE
    at_limit: bool = False
    """`preempt_deadline` is the end of the time of its batch job. Not stored: after a restart it is asked again."""
    started_at: datetime | None = None
    pulled_at: datetime | None = None
    """When the last of its images was there; None: none had to be pulled, or one is still."""
    ended_at: datetime | None = None
    outcome: Outcome | None = None

    @property
    def is_open(self) -> bool:
        return self.outcome is None

    @property
    def current_pool(self) -> str:
        """Where its slots are. What waits may have moved, and is asked for in its own pool after a restart."""
        return self.granted_pool or self.pool

    @property
    def ran_out(self) -> bool:
        """It was killed because the time of its batch job was over, or nearly so before it was ready."""
        was_ready = self.preempt_reason is not None
        return self.at_limit and (not was_ready or self.kill_reason == late_text(self))

    @property
    def leaving_s(self) -> float | None:
        """How long it took to leave, also where it was killed for that; None: it was not asked, or lost."""
        if self.preempt_asked_at is None or self.ended_at is None:
            return None
        was_late = self.kill_reason is not None and self.kill_reason == late_text(self)
        if not (self.acknowledged or was_late):
            return None
        return max(0.0, (self.ended_at - self.preempt_asked_at).total_seconds())

    @property
    def has_slots(self) -> bool:
        return bool(self.containers)

    @property
    def daemon_deadline(self) -> datetime | None:
        """When a failed daemon ends the work of the others, unless that has ended by itself."""
        if self.daemon_failed_at is None or self.failure is not None:
            return None
        return self.daemon_failed_at + DAEMON_GRACE

    @property
    def preempt_requested(self) -> bool:
        return self.preempt_reason is not None

    @property
    def never_ran(self) -> bool:
        """It ended before a process of the user's began: lost while reserved, or refused where it was to run."""
        refused = self.failure is not None and self.failure.failure is FailureKind.ABORTED
        return self.started_at is None or refused


Step: TypeAlias = tuple[AllocationState, Effects]


def fell_back(state: AllocationState) -> FellBack | None:
    """None: it is in its own pool."""
    if state.granted_pool is None:
        return None
    return FellBack(home=state.pool, why=state.fell_back_because)


def pending_effects(state: AllocationState) -> Effects:
    """What a restarted master must do again for an open allocation. Derived, so nothing can be forgotten."""
    if not state.is_open:
        return ()
    if not state.has_slots:
        return (AskResources(state.id),)
    effects: list[Effect] = []
    if state.kill_reason is not None or any(
        c.killed_by_us and not c.ended for c in state.containers
    ):
        effects.append(KillContainers(state.id))
    else:
        if any(c.phase is ContainerPhase.ASSIGNED for c in state.containers):
            effects.append(StartContainers(state.id))
        if state.preempt_requested:
            effects.append(SignalPreemption(state.id))
    return tuple(effects)


def granted(
    state: AllocationState,
    containers: tuple[Container, ...],
    *,
    token_hash: str,
    ports: Mapping[str, int],
    pool: str | None = None,
    why: str = "",
) -> Step:
    """Slots are reserved, in another pool than its own if `pool` is given. A grant for something that is over or has
    slots already is given back or ignored."""
    if not state.is_open:
        return state, (KillContainers(state.id),)
    if state.has_slots:
        return state, pending_effects(state)
    state = replace(
        state,
        phase=AllocationPhase.ASSIGNED,
        token_hash=token_hash,
        ports=ports,
        containers=tuple(ContainerProgress(container=c) for c in containers),
        granted_pool=pool if pool != state.pool else None,
        fell_back_because=why,
    )
    return state, (StartContainers(state.id),)


def made_home(state: AllocationState) -> Step:
    """The pool that it fell back to is its own from now on. Asking again tells the resource manager so."""
    if not state.is_open or state.granted_pool is None:
        return state, ()
    state = replace(state, pool=state.granted_pool, granted_pool=None, fell_back_because="")
    return state, (AskResources(state.id),)


def container_changed(
    state: AllocationState,
    container_id: str,
    phase: ContainerPhase,
    exit_: ContainerExit | None,
    *,
    now: datetime,
) -> Step:
    """One container moved on. Repeated, late and unknown reports change nothing."""
    old = next((c for c in state.containers if c.container.container_id == container_id), None)
    if old is None or not state.is_open or _CONTAINER_ORDER[phase] <= _CONTAINER_ORDER[old.phase]:
        return state, ()
    new = replace(old, phase=phase, exit=exit_)
    containers = tuple(new if c is old else c for c in state.containers)
    running = phase is not ContainerPhase.ASSIGNED and state.started_at is None
    state = replace(
        state,
        containers=containers,
        phase=_later(state.phase, _PHASE_OF_CONTAINER[phase]),
        started_at=now if running else state.started_at,
        pulled_at=now if old.phase is ContainerPhase.PULLING else state.pulled_at,
    )
    if phase is ContainerPhase.TERMINATED:
        return _after_exit(state, new, now=now)
    return state, ()


def marked_ready(state: AllocationState, os_user: str = "") -> AllocationState:
    """Rendezvous is complete: from here on a graceful end is a preemption, not a kill."""
    if not state.is_open or state.ready or not state.has_slots:
        return state
    phase = _later(state.phase, AllocationPhase.RUNNING)
    return replace(state, ready=True, os_user=os_user, phase=phase)


def made_preemptible(state: AllocationState) -> AllocationState:
    """Its task listens: a graceful end is a preemption from here on, not a kill."""
    return replace(state, preemptible=True) if state.is_open and state.has_slots else state


def moved_to_port(state: AllocationState, variable: str, port: int) -> AllocationState:
    """Somebody else on its node has the port that it had."""
    return replace(state, ports={**state.ports, variable: port}) if state.is_open else state


def acknowledged(state: AllocationState) -> AllocationState:
    """The task knows that it must leave: its exit means "run me again", not "done"."""
    if state.acknowledged or not state.is_open or not state.preempt_requested:
        return state
    return replace(state, acknowledged=True)


def marked_daemon(state: AllocationState, container_id: str, *, now: datetime) -> Step:
    """This container serves the others. Ignored for a single container; all daemons means nobody works: kill."""
    if len(state.containers) < 2 or not state.is_open:
        return state, ()
    containers = tuple(
        replace(c, daemon=True) if c.container.container_id == container_id else c
        for c in state.containers
    )
    state = replace(state, containers=containers)
    if all(c.daemon for c in containers):
        return kill(state, "all containers are daemons", now=now)
    return state, ()


def terminate(
    state: AllocationState,
    reason: str,
    *,
    now: datetime,
    deadline: datetime | None = None,
    kind: LossKind = LossKind.MACHINE,
) -> Step:
    """End it gracefully (pause, stop, preemption): preempt what is ready, kill what is not, withdraw what waits.

    `deadline`: when what it runs on goes. It is never later than the one that the preemption timeout gives, and a
    later call can only bring it forward. Work that cannot be preempted is told the deadline and ends with its machine.
    `kind`: what its end at the deadline means.
    """
    at_limit = kind is LossKind.TIME_LIMIT
    if not state.is_open:
        return state, ()
    if not state.has_slots:
        return _withdraw(state, reason, now=now)
    if not state.ready if state.preemptible else deadline is None:
        ends = at_limit and state.kill_reason is None
        return kill(replace(state, at_limit=True) if ends else state, reason, now=now)
    if state.kill_reason is not None:
        return state, ()
    by = _preempt_by(state, now, deadline)
    state = replace(state, at_limit=at_limit) if at_limit != state.at_limit else state
    if state.preempt_deadline is not None and by >= state.preempt_deadline:
        return state, ()
    asked_at = now if state.preempt_asked_at is None else state.preempt_asked_at
    state = replace(state, preempt_reason=reason, preempt_asked_at=asked_at, preempt_deadline=by)
    return state, (SignalPreemption(state.id),)


def kill(state: AllocationState, reason: str, *, now: datetime) -> Step:
    """SIGKILL. What never got slots just ends."""
    if not state.is_open:
        return state, ()
    if not state.has_slots:
        return _withdraw(state, reason, now=now)
    if state.kill_reason is None:
        untouched = not any(c.ended for c in state.containers)
        state = replace(
            state,
            kill_reason=reason,
            killed_first=untouched,
            containers=tuple(
                c if c.ended else replace(c, killed_by_us=True) for c in state.containers
            ),
        )
    return state, (KillContainers(state.id),)


def lost(
    state: AllocationState, reason: str, *, now: datetime, kind: LossKind = LossKind.MACHINE
) -> Step:
    """What it held is gone without exit codes. Containers elsewhere, if any, are killed by the caller's effect."""
    if not state.is_open:
        return state, ()
    state = replace(state, lost_reason=state.lost_reason or reason, loss=kind)
    return _close(state, now=now)


def refused(state: AllocationState, reason: str, *, now: datetime) -> Step:
    """It waits for what nobody will ever give it: to run it again would change nothing."""
    if not state.is_open or state.has_slots:
        return state, ()
    outcome = Outcome(
        kind=OutcomeKind.FAILED, reason=f"allocation failed: {reason}", error=reason, final=True
    )
    return _close(state, now=now, unstarted=outcome)


def expired(state: AllocationState, *, now: datetime) -> Step:
    """Kill what did not leave within its preemption timeout, or works on without its daemon."""
    if state.daemon_deadline is not None and now >= state.daemon_deadline and state.is_open:
        return _break(
            replace(state, failure=next(c.exit for c in state.containers if c.daemon_failed))
        )
    if state.preempt_deadline is None or now < state.preempt_deadline or not state.is_open:
        return state, ()
    if state.kill_reason is not None or not state.preemptible:
        return state, ()
    return kill(state, late_text(state), now=now)


def late_text(state: AllocationState) -> str:
    """Why it is killed at its deadline."""
    seconds = state.preemption_timeout_s
    if state.preempt_asked_at is not None and state.preempt_deadline is not None:
        seconds = (state.preempt_deadline - state.preempt_asked_at).total_seconds()
    return f"allocation did not preempt in {round(seconds)}s"


def _preempt_by(state: AllocationState, now: datetime, deadline: datetime | None) -> datetime:
    if deadline is not None and not state.preemptible:
        return deadline
    timeout = now + timedelta(seconds=state.preemption_timeout_s)
    return timeout if deadline is None else min(deadline, timeout)


def _after_exit(state: AllocationState, ended: ContainerProgress, *, now: datetime) -> Step:
    exit_ = ended.exit or ContainerExit(exit_code=None, failure=FailureKind.AGENT_FAILED)
    bad = exit_.failure is not None or exit_.exit_code != 0
    at_work = any(not c.ended for c in state.containers if not c.daemon)
    if ended.daemon_failed and at_work and not ended.killed_by_us:
        # Launchers end the daemons of work that is done, by signals, before their own end.
        return replace(state, daemon_failed_at=state.daemon_failed_at or now), ()
    if bad and not ended.killed_by_us and state.failure is None:
        state = replace(state, failure=exit_)
    if all(c.ended for c in state.containers):
        return _close(state, now=now)
    if bad or not at_work:
        # A broken gang cannot go on, and daemons have nobody left to serve.
        return _break(state)
    return state, ()


def _break(state: AllocationState) -> Step:
    """Kill what still runs; the ends of that are not failures."""
    containers = tuple(c if c.ended else replace(c, killed_by_us=True) for c in state.containers)
    return replace(state, containers=containers), (KillContainers(state.id),)


def _withdraw(state: AllocationState, reason: str, *, now: datetime) -> Step:
    """It never got slots."""
    text = f"allocation aborted after {_age_s(state, now)}s: {reason}"
    return _close(state, now=now, unstarted=Outcome(kind=OutcomeKind.WITHDRAWN, reason=text))


def _close(state: AllocationState, *, now: datetime, unstarted: Outcome | None = None) -> Step:
    """`unstarted`: of one that waits."""
    state = replace(
        state,
        phase=AllocationPhase.TERMINATED,
        ended_at=max(now, state.started_at or now),
        outcome=unstarted or _outcome(state, _age_s(state, now)),
        token_hash=None,
    )
    effects: list[Effect] = []
    if unstarted is not None:
        effects.append(Withdraw(state.id))
    elif any(not c.ended for c in state.containers):
        effects.append(KillContainers(state.id))
    effects.append(Closed(state.id))
    return state, tuple(effects)


def _age_s(state: AllocationState, now: datetime) -> int:
    return max(0, round((now - state.requested_at).total_seconds()))


def _outcome(state: AllocationState, seconds: int) -> Outcome:
    """First match wins; see the module docstring."""
    failure = state.failure
    code = failure.exit_code if failure is not None else 0
    if state.kill_reason is not None and state.killed_first:
        return Outcome(
            kind=OutcomeKind.KILLED,
            reason=f"allocation killed after {seconds}s: {state.kill_reason}",
            error=state.kill_reason if state.ran_out else "",
            at_limit=state.ran_out,
        )
    if state.preemptible and state.acknowledged:
        return Outcome(
            kind=OutcomeKind.PREEMPTED,
            reason=f"allocation preempted after {seconds}s: {state.preempt_reason or 'asked'}",
            exit_code=code,
            at_limit=state.at_limit,
        )
    if state.lost_reason is not None and state.loss is LossKind.ON_PURPOSE:
        return Outcome(
            kind=OutcomeKind.FAILED,
            reason=f"allocation failed: {state.lost_reason}",
            error=state.lost_reason,
            final=True,
        )
    if state.lost_reason is not None:
        return Outcome(
            kind=OutcomeKind.TRANSIENT,
            reason=f"allocation failed due to agent failure: {state.lost_reason}",
            error=state.lost_reason,
            at_limit=state.loss is LossKind.TIME_LIMIT,
        )
    if failure is None:
        return Outcome(
            kind=OutcomeKind.FINISHED,
            reason=f"allocation ended with exit code 0 after {seconds}s",
            exit_code=0,
        )
    if failure.failure in (FailureKind.AGENT_FAILED, FailureKind.ABORTED):
        return Outcome(
            kind=OutcomeKind.TRANSIENT,
            reason=f"allocation failed due to agent failure: {failure.message or 'agent failed'}",
            error=failure.message or "agent failed",
        )
    text = f"container failed with non-zero exit code: {failure.exit_code}"
    if failure.message:
        text = failure.message if failure.failure else f"{failure.message} (exit code {code})"
    return Outcome(
        kind=OutcomeKind.FAILED, reason=f"allocation failed: {text}", error=text, exit_code=code
    )


def _later(a: AllocationPhase, b: AllocationPhase) -> AllocationPhase:
    return a if _ORDER[a] >= _ORDER[b] else b
