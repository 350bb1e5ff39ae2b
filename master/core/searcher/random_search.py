"""`random` and `single`: a number of independent trials that each run to their own end."""

from __future__ import annotations

from dataclasses import dataclass

from master.core.searcher.method import INVALID_REASONS, Actions, ProgressSum
from master.core.searcher.sampling import TrialFactory
from master.core.searcher.types import Create, ExitReason, RequestId
from windlass.base.formats.json_types import JsonMapping, JsonObject


@dataclass(frozen=True, slots=True)
class CountState:
    """How many trials exist that count against the quota."""

    created: int = 0

    def to_json(self) -> JsonObject:
        return {"created": self.created}

    @classmethod
    def from_json(cls, data: JsonMapping) -> CountState:
        return cls(created=data["created"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSearch:
    """`max_trials` samples, at most `max_concurrent` at a time (0: all at once).

    Invalid hyperparameters do not count and are drawn again, if `replace_invalid`. Failed, cancelled and
    user-stopped trials count.
    """

    max_trials: int
    max_concurrent: int = 0
    replace_invalid: bool = True

    @classmethod
    def single(cls) -> RandomSearch:
        """One trial; if its hyperparameters are invalid the search is over, as there is nothing to choose."""
        return cls(max_trials=1, max_concurrent=1, replace_invalid=False)

    @property
    def first_trials(self) -> int:
        return min(self.max_trials, self.max_concurrent or self.max_trials)

    def initial_state(self) -> CountState:
        return CountState()

    def begin(self, state: CountState, trials: TrialFactory) -> tuple[CountState, Actions]:
        creates = tuple(self.create(nth, trials) for nth in range(self.first_trials))
        return CountState(created=len(creates)), creates

    def on_validation(
        self,
        state: CountState,
        request_id: RequestId,
        metrics: JsonMapping,
        trials: TrialFactory,
    ) -> tuple[CountState, Actions]:
        return state, ()

    def on_early_exit(
        self, state: CountState, request_id: RequestId, reason: ExitReason, trials: TrialFactory
    ) -> tuple[CountState, Actions]:
        if self.replace_invalid and reason in INVALID_REASONS:
            return CountState(created=state.created - 1), ()
        return state, ()

    def on_exit(
        self, state: CountState, request_id: RequestId, trials: TrialFactory
    ) -> tuple[CountState, Actions]:
        if state.created >= self.max_trials:
            return state, ()
        return CountState(created=state.created + 1), (self.create(state.created, trials),)

    def progress(self, state: CountState, progress_sum: ProgressSum) -> float:
        """The mean over the trials there are so far, so it goes back when a new one starts."""
        return progress_sum.mean_progress

    def create(self, nth: int, trials: TrialFactory) -> Create:
        """The `nth` trial that counts, from 0."""
        return trials.sample()
