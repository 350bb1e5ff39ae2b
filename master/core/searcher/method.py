"""What a search method is to the wrapper in `search.py`: a pure answer to each kind of event.

A method sees only events that matter: the wrapper has already dropped repeated exits, and reports of trials that were
stopped or have ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from master.core.searcher.sampling import TrialFactory
from master.core.searcher.types import Action, ExitReason, RequestId

Actions: TypeAlias = tuple[Action, ...]
S = TypeVar("S")

INVALID_REASONS = frozenset({ExitReason.INVALID_HP, ExitReason.INIT_INVALID_HP})
"""The trial said that its hyperparameters make no sense: it does not count as a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """What the wrapper knows of one requested trial."""

    received: bool = False
    """Whether anything was heard of it since it was asked for: until then it counts in no progress."""
    progress: float = 0.0
    early_exit: ExitReason | None = None
    stopped: bool = False
    """The method has asked for its end."""
    closed: bool = False

    @property
    def is_invalid(self) -> bool:
        return self.early_exit in INVALID_REASONS


class Method(Protocol[S]):
    """A search method over its own frozen state `S`. No call changes the state it is given."""

    @property
    def first_trials(self) -> int:
        """How many trials `begin` makes."""
        ...

    def initial_state(self) -> S: ...

    def begin(self, state: S, trials: TrialFactory) -> tuple[S, Actions]:
        """The first trials."""
        ...

    def on_validation(
        self,
        state: S,
        request_id: RequestId,
        metrics: Mapping[str, Any],
        trials: TrialFactory,
    ) -> tuple[S, Actions]:
        """A validation report of a live trial. Raises InvalidArgument if it lacks what the method needs."""
        ...

    def on_early_exit(
        self, state: S, request_id: RequestId, reason: ExitReason, trials: TrialFactory
    ) -> tuple[S, Actions]:
        """The trial is about to end for this reason; `on_exit` follows."""
        ...

    def on_exit(
        self, state: S, request_id: RequestId, trials: TrialFactory
    ) -> tuple[S, Actions]: ...

    def progress(self, state: S, records: Mapping[RequestId, TrialRecord]) -> float:
        """From 0 to 1."""
        ...
