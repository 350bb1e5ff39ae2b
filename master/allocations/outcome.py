"""How an allocation ended, as trials, tasks and records of costs read it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OutcomeKind(StrEnum):
    FINISHED = "finished"
    """The user's program ended by itself with exit code 0."""
    PREEMPTED = "preempted"
    """It acknowledged a preemption and left."""
    KILLED = "killed"
    """We killed it."""
    FAILED = "failed"
    """The user's program failed: counts against max_restarts."""
    TRANSIENT = "transient"
    """Agent, instance or start-up failed: ours, run again without counting."""
    WITHDRAWN = "withdrawn"
    """It never got slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    kind: OutcomeKind
    reason: str
    """One line for people, starting with words that the published clients know."""
    error: str = ""
    exit_code: int | None = None
    final: bool = False
    """It is not run again, whatever restarts are left."""
    at_limit: bool = False
    """It was at work until the time of its batch job was over."""
