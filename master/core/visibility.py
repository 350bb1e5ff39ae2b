"""Which of the cluster's things somebody may see, and of whose configurations the secrets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorboardVisibility:
    """A TensorBoard is seen where it is and where all that it shows is. None: everywhere."""

    workspaces: frozenset[int] | None = None
    experiments: frozenset[int] | None = None
    """In which workspaces those are that it may show."""

    @property
    def is_everything(self) -> bool:
        return self.workspaces is None and self.experiments is None


@dataclass(frozen=True, slots=True)
class Visibility:
    """Everything, or what is in some workspaces. What is not visible is treated as what does not exist."""

    workspaces: frozenset[int] | None = None
    """None: all."""
    secrets_of: int | None = None
    """The user whose secrets are shown."""
    all_secrets: bool = False
    interactive: Visibility | None = None
    """Of commands, notebooks, shells and the like, where those are seen by other rules than experiments."""

    def shows_secrets_of(self, owner_id: int | None) -> bool:
        """Of configurations: environment variables, registry passwords, storage keys."""
        return self.all_secrets or (owner_id is not None and owner_id == self.secrets_of)

    tensorboards: TensorboardVisibility | None = None
    """Where they are seen by other rules than other tasks."""

    @property
    def of_interactive(self) -> Visibility:
        return self if self.interactive is None else self.interactive

    @property
    def is_everything(self) -> bool:
        boards = self.tensorboards
        return self.workspaces is None and (boards is None or boards.is_everything)

    def __contains__(self, workspace_id: int) -> bool:
        return self.workspaces is None or workspace_id in self.workspaces


EVERYTHING = Visibility()
