"""What the master writes into a task's log: when an allocation was queued, placed, started, and why it ended."""

from __future__ import annotations

from datetime import UTC
from typing import Protocol

from master.allocations.machine import AllocationPhase, AllocationState, ContainerProgress


class TaskLogWriter(Protocol):
    """Where lines of the master go."""

    def say(self, task_id: str, allocation_id: str, text: str, *, level: str = "INFO") -> None:
        """Append one line with source `master`, sooner or later. Never fails or delays: logs are not state."""
        ...


def lines(name: str, old: AllocationState | None, new: AllocationState) -> list[tuple[str, str]]:
    """(level, text) for each thing worth saying about an allocation's step."""
    fresh = old is None or old.id != new.id
    said: list[tuple[str, str]] = []
    if fresh:
        said.append(("INFO", f"Scheduling {name} (id: {new.id})"))
    if new.has_slots and (fresh or (old is not None and not old.has_slots)):
        agents = ", ".join(sorted({c.container.agent_id for c in new.containers}))
        said.append(("INFO", f"{name} was assigned to {agents}{_elsewhere(new)}"))
    reached = new.phase is AllocationPhase.RUNNING and new.started_at is not None
    if reached and (fresh or (old is not None and old.phase is not AllocationPhase.RUNNING)):
        said.append(("INFO", f"Resources for {name} have started"))
    if new.preempt_requested and (
        fresh or (old is not None and old.preempt_deadline != new.preempt_deadline)
    ):
        asked = f"{name} was asked to checkpoint and stop{_by(new)}: {new.preempt_reason}"
        said.append(("INFO", asked))
    ended = (
        {c.container.container_id for c in old.containers if c.ended}
        if old and not fresh
        else set()
    )
    said += [_exit(c) for c in new.containers if c.exit and c.container.container_id not in ended]
    if new.outcome is not None and (fresh or (old is not None and old.outcome is None)):
        level = "ERROR" if new.outcome.error else "INFO"
        said.append((level, f"{name} was terminated: {new.outcome.reason}"))
    return said


def _exit(state: ContainerProgress) -> tuple[str, str]:
    """In the published words, which scripts look for."""
    assert state.exit is not None  # noqa: S101  (only what has ended)
    code = state.exit.exit_code
    if code == 0 and state.exit.failure is None:
        return "INFO", "resources exited successfully with a zero exit code"
    if code is None:
        return "ERROR", f"resources failed: {state.exit.message or 'agent failed'}"
    why = f"{state.exit.message} (exit code {code})" if state.exit.message else str(code)
    return "ERROR", f"resources failed with non-zero exit code: {why}"


def _elsewhere(state: AllocationState) -> str:
    if state.granted_pool is None:
        return ""
    why = f": {state.fell_back_because}" if state.fell_back_because else ""
    return f" in resource pool {state.granted_pool}, not in {state.pool}{why}"


def _by(state: AllocationState) -> str:
    deadline = state.preempt_deadline
    return "" if deadline is None else f" by {deadline.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
