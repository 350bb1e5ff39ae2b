"""Which of the cluster's things somebody may see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Visibility:
    """Everything, or what is in some workspaces. What is not visible is treated as what does not exist."""

    workspaces: frozenset[int] | None = None
    """None: all."""

    @property
    def is_everything(self) -> bool:
        return self.workspaces is None

    def __contains__(self, workspace_id: int) -> bool:
        return self.workspaces is None or workspace_id in self.workspaces


EVERYTHING = Visibility()
