"""On whose behalf a call is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from master.core.actor import Actor

if TYPE_CHECKING:
    from master.auth.actions import Action, Target
    from master.core.visibility import Visibility
    from windlass.base.errors import WindlassError


class Rules(Protocol):
    """What decides for one caller in the place of the basic rules."""

    def allowed(self, principal: Principal, action: Action, target: Target) -> bool: ...

    def denial(self, principal: Principal, action: Action, target: Target) -> WindlassError:
        """Why not; for what `principal` may not even see, that it is not there."""
        ...

    def visibility(self, principal: Principal, action: Action) -> Visibility: ...

    def grants_the_same(self, other: Rules) -> bool:
        """Whether both answer every question alike."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal(Actor):
    """An actor with what the rules ask."""

    admin: bool
    changes_others_work: bool = False
    """By `security.authz.others_work`."""
    rules: Rules | None = field(default=None, compare=False, repr=False)
    """None: the basic ones."""
    allocation_id: str | None = None
    """Set when the caller is a task."""
    experiment_id: int | None = None
    """Of which the task is a trial; None for a user, and for any other task."""
    session_id: int | None = field(default=None, compare=False)
    """Of the login; whoever it is, is the same in any of them."""
    access_token_id: int | None = field(default=None, compare=False)
    """Set when the caller is a program with an access token."""


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Who a task is, and for whom it acts."""

    user_id: int
    allocation_id: str
    task_id: str
    experiment_id: int | None = None


class AllocationTokens(Protocol):
    """Whose token this is, from the live state of allocations; None once the allocation has ended."""

    def owner_of(self, token_hash: str) -> TaskIdentity | None: ...
