"""What a pure step over an experiment takes and gives, and the step in the making."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from master.allocations.machine import AllocationState, Effect
from master.core.searcher.search import Search
from master.core.searcher.types import Action, Event
from master.experiments.state import ExperimentState, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """What a pure step may not find out by itself."""

    now: datetime
    search: Search
    next_trial_id: Callable[[], int]


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One searcher event with the actions it caused."""

    seq: int
    event: Event
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Step:
    state: ExperimentState
    events: tuple[LoggedEvent, ...] = ()
    effects: tuple[Effect, ...] = ()
    replaced: Mapping[str, AllocationState] = field(default_factory=dict)
    """Request id -> the ended run whose place a new one took: the state does not show how it ended."""


@dataclass(slots=True)
class StepBuilder:
    """A step in the making. Lives only inside one step function."""

    state: ExperimentState
    env: Env
    events: list[LoggedEvent] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    replaced: dict[str, AllocationState] = field(default_factory=dict)
    _asked: int = field(default=0, init=False)
    _trials: dict[str, TrialState] = field(default_factory=dict, init=False)
    """Those of `state`, once they are the builder's own."""

    def put(self, trial: TrialState) -> None:
        """The trials are copied at the first change only: a step may change thousands of them."""
        if self.state.trials is not self._trials:
            self._trials = dict(self.state.trials)
            self.state = replace(self.state, trials=self._trials)
        self._trials[trial.request_id] = trial

    def request_time(self) -> datetime:
        """Of one more allocation: a microsecond after the one before, so that a step's runs queue in its order."""
        self._asked += 1
        return self.env.now + timedelta(microseconds=self._asked - 1)

    def done(self) -> Step:
        self._trials = {}
        return Step(self.state, tuple(self.events), tuple(self.effects), self.replaced)
