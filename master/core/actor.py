"""Who does something to the cluster: every call of a service that changes something takes it as `by`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """A user, or a task that acts for the user who owns it."""

    user_id: int
    name: str
    """Of the user."""
    task_id: str | None = None

    def __str__(self) -> str:
        return self.name if self.task_id is None else f"{self.name} (task {self.task_id})"
