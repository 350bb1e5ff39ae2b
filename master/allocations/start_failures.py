"""Allocations that ended before the user's program began: whether another try may end otherwise. Pure.

A node may refuse a task for a reason of its own, and the next one may take it. What fails with the same words three
times, or on two nodes, is not the node's: another machine would only cost money.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from master.allocations.machine import AllocationState
from rm_backends.base import FailureKind

SAME_TIMES = 3
SAME_NODES = 2

_CHANGES = re.compile(r"[0-9a-f]{8,}|\d+", re.IGNORECASE)
"""What differs between two tries that fail for the same reason: ids, ports, times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailure:
    """One cause of failed starts in a row."""

    cause: str
    """As the last node said it."""
    times: int
    agents: frozenset[str]

    @property
    def is_final(self) -> bool:
        return self.times >= SAME_TIMES or len(self.agents) >= SAME_NODES

    @property
    def text(self) -> str:
        """For the user."""
        where = ", ".join(sorted(self.agents))
        if len(self.agents) >= SAME_NODES:
            return f"it could not be started on {len(self.agents)} nodes ({where}): {self.cause}"
        return f"it could not be started {self.times} times in a row on {where}: {self.cause}"


def start_failure(before: StartFailure | None, ended: AllocationState) -> StartFailure | None:
    """`before`: of the allocations before this one. None: it was no node that refused it."""
    refusals = [
        (one.container.agent_id, one.exit.message)
        for one in ended.containers
        if one.exit is not None and one.exit.failure is FailureKind.ABORTED
    ]
    if ended.failure is None or ended.failure.failure is not FailureKind.ABORTED or not refusals:
        return None
    cause = ended.failure.message
    agents = frozenset(agent for agent, said in refusals if _is_same(said, cause, ended))
    if before is not None and _is_same(before.cause, cause, ended, before.agents):
        return StartFailure(cause=cause, times=before.times + 1, agents=before.agents | agents)
    return StartFailure(cause=cause, times=1, agents=agents)


def _is_same(
    one: str, other: str, ended: AllocationState, agents: frozenset[str] = frozenset()
) -> bool:
    names = agents | {box.container.agent_id for box in ended.containers}
    return _kind(one, names) == _kind(other, names)


def _kind(text: str, agents: frozenset[str]) -> str:
    for agent in sorted(agents, key=len, reverse=True):
        text = text.replace(agent, "#")
    return _CHANGES.sub("#", text)
