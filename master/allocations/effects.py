"""What follows from a step of an allocation, once it is committed. Each can be carried out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class AskResources:
    """Queue a request at the resource manager."""

    allocation_id: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take the request out of the queue."""

    allocation_id: str


@dataclass(frozen=True, slots=True)
class StartContainers:
    """The grant is committed: start."""

    allocation_id: str


@dataclass(frozen=True, slots=True)
class SignalPreemption:
    """Answer the task's long polls with true, and tell the resource manager that the slots will come back."""

    allocation_id: str


@dataclass(frozen=True, slots=True)
class KillContainers:
    allocation_id: str


@dataclass(frozen=True, slots=True)
class Closed:
    """It has ended: wake everything that waits on it."""

    allocation_id: str


Effect: TypeAlias = (
    AskResources | Withdraw | StartContainers | SignalPreemption | KillContainers | Closed
)
Effects: TypeAlias = tuple[Effect, ...]
