"""What a search method is to the wrapper in `search.py`: a pure answer to each kind of event.

A method sees only events that matter: the wrapper has already dropped repeated exits, and reports of trials that were
stopped or have ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from master.core.searcher.sampling import TrialFactory
from master.core.searcher.types import Action, ExitReason, RequestId
from windlass.base.formats.json_types import JsonMapping

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
    awaits_point: bool = False
    """A sampler is still to choose its hyperparameters: it must not run before."""

    @property
    def is_invalid(self) -> bool:
        return self.early_exit in INVALID_REASONS


PARTS = 2**60
"""A trial's progress is summed in these, as integers: the sum is the same in whatever order it was made."""


@dataclass(frozen=True, slots=True)
class ProgressSum:
    """The progress of all trials of a search, kept up to date record by record."""

    trials: int = 0
    """Those that were received; invalid hyperparameters do not count."""
    parts: int = 0

    @classmethod
    def of(cls, records: Iterable[TrialRecord]) -> ProgressSum:
        progress_sum = cls()
        for record in records:
            progress_sum = progress_sum.changed(None, record)
        return progress_sum

    def changed(self, old: TrialRecord | None, new: TrialRecord) -> ProgressSum:
        """With one record replaced, or added (`old` is None)."""
        trials, parts = _counted(new)
        if old is not None:
            old_trials, old_parts = _counted(old)
            trials, parts = trials - old_trials, parts - old_parts
        return ProgressSum(self.trials + trials, self.parts + parts)

    @property
    def mean_progress(self) -> float:
        return self.parts / (PARTS * self.trials) if self.trials else 0.0


def _counted(record: TrialRecord) -> tuple[int, int]:
    if record.is_invalid or not record.received:
        return 0, 0
    return 1, PARTS if record.closed else round(record.progress * PARTS)


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
        metrics: JsonMapping,
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

    def progress(self, state: S, progress_sum: ProgressSum) -> float:
        """From 0 to 1."""
        ...
