"""Commands in every stage of their life, for the tests of their machine and of their rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from master.allocations import machine as allocation
from master.allocations.machine import AllocationState
from master.core.expconf import ClusterDefaults
from master.core.expconf.interactive import complete_task
from master.core.expconf.kinds import CommandConfig
from master.core.jobs import JobType
from master.tasks import machine
from master.tasks.machine import AllocationStep, TaskStep
from master.tasks.state import TaskState
from rm_backends.base import Container, ContainerExit, ContainerPhase, FailureKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
OK = ContainerExit(exit_code=0)
BAD = ContainerExit(exit_code=3)
KILLED = ContainerExit(exit_code=137)
REFUSED = ContainerExit(exit_code=None, failure=FailureKind.ABORTED, message="disk full")
BAD_MOUNT = ContainerExit(exit_code=None, failure=FailureKind.TASK_ERROR, message="no /x here")
AGENT_DIED = ContainerExit(exit_code=None, failure=FailureKind.AGENT_FAILED, message="agent died")


def new(**config: Any) -> TaskState:
    raw = {"entrypoint": ["echo", "hi"], **config}
    return TaskState(
        type=JobType.COMMAND,
        id="cmd",
        job_id="job",
        owner_id=1,
        workspace_id=1,
        config=complete_task(CommandConfig, raw, defaults=ClusterDefaults()),
        pool="default",
        created_at=NOW,
    )


def waiting(**config: Any) -> TaskState:
    return machine.launch(new(**config), NOW).state


def reserved() -> TaskState:
    return granted(waiting())


def running() -> TaskState:
    return reported(reserved(), ContainerPhase.RUNNING).state


def granted(state: TaskState) -> TaskState:
    run = run_of(state)
    container = Container(container_id=f"{run.id}-c", agent_id="a", rank=0, slot_ids=(0,))
    grant = partial(
        allocation.granted, containers=(container,), token_hash="hash", ports={"C10D_PORT": 29400}
    )
    return stepped(state, grant).state


def reported(
    state: TaskState, phase: ContainerPhase, exit_: ContainerExit | None = None
) -> TaskStep:
    container_id = f"{run_of(state).id}-c"
    return stepped(
        state, lambda run: allocation.container_changed(run, container_id, phase, exit_, now=NOW)
    )


def exited(state: TaskState, exit_: ContainerExit) -> TaskStep:
    return reported(state, ContainerPhase.TERMINATED, exit_)


def lost(state: TaskState) -> TaskStep:
    return stepped(state, partial(allocation.lost, reason="agent a is gone", now=NOW))


def stepped(state: TaskState, step: AllocationStep) -> TaskStep:
    return machine.allocation_event(state, NOW, run_of(state).id, step)


def run_of(state: TaskState) -> AllocationState:
    assert state.allocation is not None
    return state.allocation
