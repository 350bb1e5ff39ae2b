"""`async_halving`: asynchronous successive halving in its stopping form.

Trials report as they train. When a report reaches the units of the trial's rung, it is ranked there at once against the
reports that came before: in the best 1/divisor the trial goes on to the next rung, otherwise it is stopped and another
one starts. Nothing waits and nothing is decided twice.

One rule covers all ways a trial can end: it has at most one successor, made when it ends, if the quota has room. So the
number of live trials stays as it began, and a search reaches its quota also when trials end by themselves early.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace

from master.core.persistent_map import PersistentMap
from master.core.searcher.method import INVALID_REASONS, Actions, ProgressSum
from master.core.searcher.metrics import WORST, ranked_metric, reported_units
from master.core.searcher.sampling import TrialFactory
from master.core.searcher.types import ExitReason, RequestId, Stop
from windlass.base.formats.json_types import JsonMapping, JsonObject

PROGRESS_AFTER_QUOTA = 1.2
"""Until all trials have entered the lowest rung, progress stays below 1/1.2: the last ones still have to train."""


@dataclass(frozen=True, slots=True)
class RungEntry:
    """A report at a rung; `metric` in the order where smaller is better."""

    metric: float
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class Rung:
    units: int
    entries: tuple[RungEntry, ...] = ()
    """Best first."""

    def enter(self, entry: RungEntry) -> tuple[Rung, int]:
        """The rung with this entry, and its position; among equals the later one ranks better."""
        at = bisect_left(self.entries, entry.metric, key=lambda e: e.metric)
        return replace(self, entries=(*self.entries[:at], entry, *self.entries[at:])), at

    def without(self, request_id: RequestId) -> Rung:
        return replace(self, entries=tuple(e for e in self.entries if e.request_id != request_id))


@dataclass(frozen=True, slots=True)
class AshaTrial:
    rung: int = 0
    """The rung it is on its way to, or was decided at."""
    ended: bool = False
    """Stopped or gone: its successor, if any, has been made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AshaState:
    rungs: tuple[Rung, ...]
    smaller_is_better: bool
    """Kept with the entries, so that a stored state can be shown without its configuration."""
    trials: PersistentMap[RequestId, AshaTrial] = field(
        default_factory=PersistentMap[RequestId, AshaTrial]
    )
    invalid: int = 0
    exited: int = 0

    def with_trial(self, request_id: RequestId, trial: AshaTrial) -> AshaState:
        return replace(self, trials=self.trials.updated({request_id: trial}))

    def with_rung(self, index: int, rung: Rung) -> AshaState:
        return replace(self, rungs=(*self.rungs[:index], rung, *self.rungs[index + 1 :]))

    def to_json(self) -> JsonObject:
        return {
            "rungs": [
                {"units": r.units, "entries": [[e.metric, e.request_id] for e in r.entries]}
                for r in self.rungs
            ],
            "smaller_is_better": self.smaller_is_better,
            "trials": {id_: [t.rung, t.ended] for id_, t in self.trials.items()},
            "invalid": self.invalid,
            "exited": self.exited,
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> AshaState:
        return cls(
            rungs=tuple(
                Rung(r["units"], tuple(RungEntry(float(m), id_) for m, id_ in r["entries"]))
                for r in data["rungs"]
            ),
            smaller_is_better=data["smaller_is_better"],
            trials=PersistentMap({id_: AshaTrial(*t) for id_, t in data["trials"].items()}),
            invalid=data["invalid"],
            exited=data["exited"],
        )


def rung_units(max_time: int, divisor: float, num_rungs: int) -> tuple[int, ...]:
    """Units of training at each rung, lowest first: `max_time` at the top, 1/divisor of it per step down, at least 1.

    Floating division and truncation, as the system we succeed does it.
    """
    return tuple(
        max(int(max_time / power(divisor, num_rungs - 1 - i)), 1) for i in range(num_rungs)
    )


def power(base: float, exponent: int) -> float:
    """`base ** exponent`, infinite where Python would raise."""
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Asha:
    units: tuple[int, ...]
    divisor: float
    max_trials: int
    max_concurrent: int
    """0: as many as the lowest rung needs to bring one trial to the top."""
    metric: str
    time_metric: str
    smaller_is_better: bool = True

    @property
    def first_trials(self) -> int:
        wanted = self.max_concurrent or power(self.divisor, len(self.units) - 1)
        return int(min(wanted, self.max_trials))

    def initial_state(self) -> AshaState:
        return AshaState(
            rungs=tuple(Rung(u) for u in self.units), smaller_is_better=self.smaller_is_better
        )

    def begin(self, state: AshaState, trials: TrialFactory) -> tuple[AshaState, Actions]:
        creates = tuple(trials.sample() for _ in range(self.first_trials))
        first = PersistentMap({c.request_id: AshaTrial() for c in creates})
        return replace(state, trials=first), creates

    def on_validation(
        self,
        state: AshaState,
        request_id: RequestId,
        metrics: JsonMapping,
        trials: TrialFactory,
    ) -> tuple[AshaState, Actions]:
        metric = ranked_metric(metrics, self.metric, smaller_is_better=self.smaller_is_better)
        units = reported_units(metrics, self.time_metric)
        state, stays = self._climb(state, RungEntry(metric, request_id), units)
        if stays:
            return state, ()
        state, successor = self._end(state, request_id, trials)
        return state, (Stop(request_id), *successor)

    def on_early_exit(
        self, state: AshaState, request_id: RequestId, reason: ExitReason, trials: TrialFactory
    ) -> tuple[AshaState, Actions]:
        trial = state.trials[request_id]
        if trial.ended:
            return state, ()
        if reason not in INVALID_REASONS:
            rung, _ = state.rungs[trial.rung].enter(RungEntry(WORST, request_id))
            return self._end(state.with_rung(trial.rung, rung), request_id, trials)
        state = replace(
            state,
            invalid=state.invalid + 1,
            rungs=tuple(rung.without(request_id) for rung in state.rungs),
        )
        state, successor = self._end(state, request_id, trials)
        return state, (Stop(request_id), *successor)

    def on_exit(
        self, state: AshaState, request_id: RequestId, trials: TrialFactory
    ) -> tuple[AshaState, Actions]:
        state = replace(state, exited=state.exited + 1)
        if state.trials[request_id].ended:
            return state, ()
        return self._end(state, request_id, trials)

    def progress(self, state: AshaState, progress_sum: ProgressSum) -> float:
        """By trials that have entered the lowest rung; once all have, by trials that are done."""
        entered = len(state.rungs[0].entries)
        progress = entered / (PROGRESS_AFTER_QUOTA * self.max_trials)
        if entered == self.max_trials:
            progress = max(progress, (state.exited - state.invalid) / self.max_trials)
        return progress

    def _climb(self, state: AshaState, entry: RungEntry, units: int) -> tuple[AshaState, bool]:
        """Enter the report at every rung it reaches; whether the trial trains on.

        A late report can pass several rungs, with the same metric at each.
        """
        index = state.trials[entry.request_id].rung
        while units >= state.rungs[index].units:
            rung, position = state.rungs[index].enter(entry)
            state = state.with_rung(index, rung)
            keep = max(int(len(rung.entries) / self.divisor), 1)
            if index == len(state.rungs) - 1 or position >= keep:
                return state, False
            index += 1
            state = state.with_trial(entry.request_id, AshaTrial(rung=index))
        return state, True

    def _end(
        self, state: AshaState, request_id: RequestId, trials: TrialFactory
    ) -> tuple[AshaState, Actions]:
        """Mark the trial ended and make its successor, unless the quota is full."""
        trial = state.trials[request_id]
        state = state.with_trial(request_id, replace(trial, ended=True))
        if len(state.trials) - state.invalid >= self.max_trials:
            return state, ()
        create = trials.sample()
        return state.with_trial(create.request_id, AshaTrial()), (create,)
