"""What a pure step over an experiment takes and gives, and the step in the making."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from master.allocations.effects import Effect
from master.allocations.machine import AllocationState
from master.core.searcher.search import Search
from master.core.searcher.types import Action, Event
from master.experiments.lifecycle.state import ExperimentState, Phase, TrialState
from master.store.unit_of_work import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """What a pure step may not find out by itself."""

    now: datetime
    search: Search
    next_trial_id: Callable[[], int]
    next_metric_id: Callable[[], int]
    max_lost_runs: int = 10
    """See `ClusterPolicy`."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One searcher event with the actions it caused."""

    seq: int
    event: Event
    actions: tuple[Action, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class TrialChange:
    """What a step did to one trial; `before` is None for a new one."""

    before: TrialState | None
    after: TrialState
    replaced: AllocationState | None = None
    """The ended allocation whose place a new one took: `after` does not show how it ended."""

    def allocations(self) -> Iterator[tuple[AllocationState | None, AllocationState]]:
        """Each allocation that changed, before and after: the end of the one that was replaced comes first."""
        last = self.before.allocation if self.before is not None else None
        for allocation in (self.replaced, self.after.allocation):
            if allocation is not None and allocation is not last:
                yield (last if last is not None and last.id == allocation.id else None), allocation
                last = allocation


@dataclass(frozen=True, slots=True)
class ExperimentStep:
    state: ExperimentState
    events: tuple[LoggedEvent, ...] = ()
    effects: tuple[Effect, ...] = ()
    trials: tuple[TrialChange, ...] = ()
    """Those that changed."""
    rows: tuple[Operation, ...] = ()
    """What else is written in the same commit."""


@dataclass(slots=True)
class StepBuilder:
    """A step in the making. Lives only inside one step function."""

    state: ExperimentState
    env: Env
    events: list[LoggedEvent] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    replaced: dict[str, AllocationState] = field(default_factory=dict)
    """Request id -> the ended allocation whose place a new one took."""
    settled: Phase = field(init=False)
    """The phase of the experiment that all of its trials follow."""
    most_open: int = field(init=False)
    """How many trials had not ended at once, since before the step."""
    _before: dict[str, TrialState | None] = field(default_factory=dict, init=False)
    """Request id -> what a trial that was put was before the step."""
    _asked: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.settled = self.state.phase
        self.most_open = self.state.open_trials

    def put(self, trial: TrialState) -> None:
        old = self.state.trials.get(trial.request_id)
        self._before.setdefault(trial.request_id, old)
        was_open = old is not None and not old.phase.is_terminal
        self.state = replace(
            self.state,
            trials=self.state.trials.updated({trial.request_id: trial}),
            open_trials=self.state.open_trials + (not trial.phase.is_terminal) - was_open,
        )
        self.most_open = max(self.most_open, self.state.open_trials)

    def request_time(self) -> datetime:
        """Of one more allocation: a microsecond after the one before, so that a step's runs queue in its order."""
        self._asked += 1
        return self.env.now + timedelta(microseconds=self._asked - 1)

    def done(self) -> ExperimentStep:
        trials = self.state.trials
        changed = tuple(
            TrialChange(before, trials[request_id], self.replaced.get(request_id))
            for request_id, before in self._before.items()
            if trials[request_id] is not before
        )
        return ExperimentStep(self.state, tuple(self.events), tuple(self.effects), changed)
