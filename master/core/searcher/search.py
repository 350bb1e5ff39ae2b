"""The search of one experiment: what all methods have in common.

A search is a fixed rule and a state. `on(state, event)` is pure: the store keeps the events, so a state is rebuilt from
any snapshot plus the events after it (`replay`), and answers with the very same actions.

What the wrapper settles for every method, so that events may be delivered more than once and late:
- repeated events of any kind change nothing;
- reports of a trial that was stopped or has ended are ignored;
- when the last requested trial has ended without a successor, the search shuts down, once. It failed only if every
  trial failed and was cancelled only if every trial was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from master.core.persistent_map import PersistentMap
from master.core.searcher.adaptive import TournamentState
from master.core.searcher.asha import AshaState
from master.core.searcher.external import External, ExternalState
from master.core.searcher.method import Actions, Method, ProgressSum, TrialRecord
from master.core.searcher.random_search import CountState
from master.core.searcher.rng import RngState
from master.core.searcher.sampling import TrialFactory
from master.core.searcher.settings import build_method, read_settings
from master.core.searcher.space import Nested, parse_space
from master.core.searcher.types import (
    Create,
    Event,
    ExitReason,
    InitialTrials,
    PointChosen,
    RequestId,
    SearchClosed,
    Shutdown,
    Stop,
    StopAsked,
    TrialAdded,
    TrialContinued,
    TrialCreated,
    TrialEvent,
    TrialExited,
    TrialExitedEarly,
    TrialProgress,
    ValidationCompleted,
)
from windlass.base.errors import InvalidState, NotFound
from windlass.base.formats.json_types import JsonMapping

MethodState = CountState | AshaState | TournamentState | ExternalState


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """Everything a search remembers. JSON forms are in `state_json.py`."""

    rng: RngState
    method: MethodState
    trials: PersistentMap[RequestId, TrialRecord] = field(
        default_factory=PersistentMap[RequestId, TrialRecord]
    )
    """Every trial requested so far."""
    progress_sum: ProgressSum = field(default_factory=ProgressSum)
    """Of `trials`."""
    closed: int = 0

    def with_records(self, changed: Mapping[RequestId, TrialRecord]) -> SearchState:
        progress_sum = self.progress_sum
        for request_id, record in changed.items():
            progress_sum = progress_sum.changed(self.trials.get(request_id), record)
        return replace(self, trials=self.trials.updated(changed), progress_sum=progress_sum)


@dataclass(frozen=True, slots=True)
class Search:
    """The rule of one experiment's search. Stateless: make it again from the same configuration at any time."""

    method: Method[Any]
    space: Nested
    seed: int
    sampler: str = ""
    """What chooses the hyperparameters of its trials; empty: its random stream."""

    @classmethod
    def from_config(cls, searcher: JsonMapping, hyperparameters: JsonMapping, seed: int) -> Search:
        """From the sections of a complete configuration, and `reproducibility.experiment_seed`.

        Raises InvalidConfig for what no search could run with.
        """
        space = parse_space(hyperparameters)
        sampler = (searcher.get("windlass_sampler") or {}).get("name", "")
        return cls(build_method(read_settings(searcher), space), space, seed, sampler)

    def start(self) -> SearchState:
        """The state before any event."""
        return SearchState(rng=RngState.seeded(self.seed), method=self.method.initial_state())

    def on(self, state: SearchState, event: Event) -> tuple[SearchState, Actions]:
        """The state after the event, and what to do now, in order.

        Raises InvalidArgument if a report lacks what the method needs, NotFound for a trial that is not of this
        search, InvalidState for what a client may not add; the given state stays valid.
        """
        match event:
            case InitialTrials():
                return self._begin(state)
            case TrialAdded():
                return self._added(state, event)
            case SearchClosed():
                return self._search_closed(state)
            case _:
                return self._on_trial(state, event)

    def _on_trial(self, state: SearchState, event: TrialEvent) -> tuple[SearchState, Actions]:
        record = state.trials.get(event.request_id)
        if record is None:
            raise NotFound("trial", event.request_id)
        if isinstance(event, TrialContinued):
            return _continued(state, record, event), ()
        if record.closed:
            return state, ()
        match event:
            case TrialCreated():
                return _received(state, record, event), ()
            case ValidationCompleted():
                return self._validated(state, record, event)
            case TrialExitedEarly():
                return self._exited_early(state, record, event)
            case TrialExited():
                return self._exited(state, record, event)
            case TrialProgress():
                return _progressed(state, record, event), ()
            case StopAsked():
                return _stop_asked(state, record, event)
            case PointChosen():
                return state.with_records(
                    {event.request_id: replace(record, awaits_point=False)}
                ), ()

    def progress(self, state: SearchState) -> float:
        """From 0 to 1, by the method's own measure; it may go back when new trials start."""
        return float(self.method.progress(state.method, state.progress_sum))

    def is_over(self, state: SearchState) -> bool:
        """Whether the shutdown has been sent: every trial that was asked for has ended."""
        if isinstance(state.method, ExternalState):
            return state.method.closed and state.closed == len(state.trials)
        return bool(state.trials) and state.closed == len(state.trials)

    def _begin(self, state: SearchState) -> tuple[SearchState, Actions]:
        if state.trials:
            return state, ()
        trials = TrialFactory(state.rng, self.space)
        return self._applied(state, trials, self.method.begin(state.method, trials))

    def _added(self, state: SearchState, event: TrialAdded) -> tuple[SearchState, Actions]:
        method, of_method = self._external(state)
        trials = TrialFactory(state.rng, self.space)
        return self._applied(state, trials, method.add(of_method, event, trials))

    def _search_closed(self, state: SearchState) -> tuple[SearchState, Actions]:
        _, of_method = self._external(state)
        if of_method.closed:
            return state, ()
        state = replace(state, method=replace(of_method, closed=True))
        return state, ((_shutdown(state),) if self.is_over(state) else ())

    def _external(self, state: SearchState) -> tuple[External, ExternalState]:
        if isinstance(self.method, External) and isinstance(state.method, ExternalState):
            return self.method, state.method
        raise InvalidState(
            "this search makes its trials itself: only those of the searcher windlass_external are"
            " added by a client"
        )

    def _validated(
        self, state: SearchState, record: TrialRecord, event: ValidationCompleted
    ) -> tuple[SearchState, Actions]:
        if record.stopped or record.early_exit is not None:
            return state, ()
        trials = TrialFactory(state.rng, self.space)
        step = self.method.on_validation(state.method, event.request_id, event.metrics, trials)
        return self._applied(state, trials, step)

    def _exited_early(
        self, state: SearchState, record: TrialRecord, event: TrialExitedEarly
    ) -> tuple[SearchState, Actions]:
        if record.early_exit is not None:
            return state, ()
        state = state.with_records({event.request_id: replace(record, early_exit=event.reason)})
        trials = TrialFactory(state.rng, self.space)
        step = self.method.on_early_exit(state.method, event.request_id, event.reason, trials)
        return self._applied(state, trials, step)

    def _exited(
        self, state: SearchState, record: TrialRecord, event: TrialExited
    ) -> tuple[SearchState, Actions]:
        state = state.with_records({event.request_id: replace(record, closed=True)})
        state = replace(state, closed=state.closed + 1)
        trials = TrialFactory(state.rng, self.space)
        step = self.method.on_exit(state.method, event.request_id, trials)
        state, actions = self._applied(state, trials, step)
        if self.is_over(state):
            actions = (*actions, _shutdown(state))
        return state, actions

    def _applied(
        self, state: SearchState, trials: TrialFactory, step: tuple[MethodState, Actions]
    ) -> tuple[SearchState, Actions]:
        """The state after a step of the method: its own, the random stream, and the trials it created and stopped."""
        method, actions = step
        changed: dict[RequestId, TrialRecord] = {}
        for action in actions:
            if isinstance(action, Create):
                changed[action.request_id] = TrialRecord(awaits_point=bool(self.sampler))
            elif isinstance(action, Stop):
                changed[action.request_id] = replace(state.trials[action.request_id], stopped=True)
        if changed:
            state = state.with_records(changed)
        return replace(state, rng=trials.rng_state(), method=method), actions


def replay(search: Search, events: Iterable[Event]) -> tuple[SearchState, list[Actions]]:
    """Run the events from the start: the state after them, and the actions that each gave."""
    return resume(search, search.start(), events)


def resume(
    search: Search, state: SearchState, events: Iterable[Event]
) -> tuple[SearchState, list[Actions]]:
    """Run the events that came after a snapshot."""
    answers: list[Actions] = []
    for event in events:
        state, actions = search.on(state, event)
        answers.append(actions)
    return state, answers


def _received(state: SearchState, record: TrialRecord, event: TrialCreated) -> SearchState:
    if record.received:
        return state
    return state.with_records({event.request_id: replace(record, received=True)})


def _progressed(state: SearchState, record: TrialRecord, event: TrialProgress) -> SearchState:
    # Some harnesses report units where a fraction is meant; a search is never more than done.
    if not math.isfinite(event.fraction):
        return state
    fraction = min(max(float(event.fraction), 0.0), 1.0)
    return state.with_records({event.request_id: replace(record, received=True, progress=fraction)})


def _stop_asked(
    state: SearchState, record: TrialRecord, event: StopAsked
) -> tuple[SearchState, Actions]:
    if record.stopped:
        return state, ()
    state = state.with_records({event.request_id: replace(record, stopped=True)})
    return state, (Stop(event.request_id),)


def _continued(state: SearchState, record: TrialRecord, event: TrialContinued) -> SearchState:
    again = replace(record, closed=False, early_exit=None, stopped=False, progress=0.0)
    return replace(
        state.with_records({event.request_id: again}), closed=state.closed - record.closed
    )


def _shutdown(state: SearchState) -> Shutdown:
    exits = [record.early_exit for record in state.trials.values()]
    if not exits:
        return Shutdown()
    return Shutdown(
        cancel=all(e is ExitReason.USER_CANCELED for e in exits),
        failure=all(e is ExitReason.ERRORED for e in exits),
    )
