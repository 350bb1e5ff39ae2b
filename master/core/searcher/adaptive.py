"""`adaptive_asha`: several ASHA brackets side by side, from many short trials to few long ones.

Brackets share nothing but the random stream: each has its own rungs, quota and concurrency, and a trial belongs to the
bracket that created it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from master.core.searcher.asha import Asha, AshaState
from master.core.searcher.method import Actions, ProgressSum
from master.core.searcher.sampling import TrialFactory
from master.core.searcher.types import Action, ExitReason, RequestId
from windlass.base.formats.json_types import JsonMapping, JsonObject

Step: TypeAlias = Callable[[Asha, AshaState], tuple[AshaState, Actions]]


@dataclass(frozen=True, slots=True)
class TournamentState:
    brackets: tuple[AshaState, ...]

    def to_json(self) -> JsonObject:
        return {"brackets": [b.to_json() for b in self.brackets]}

    @classmethod
    def from_json(cls, data: JsonMapping) -> TournamentState:
        return cls(brackets=tuple(AshaState.from_json(b) for b in data["brackets"]))


@dataclass(frozen=True, slots=True)
class Tournament:
    brackets: tuple[Asha, ...]
    """Most rungs first."""

    @property
    def first_trials(self) -> int:
        return sum(bracket.first_trials for bracket in self.brackets)

    def initial_state(self) -> TournamentState:
        return TournamentState(tuple(b.initial_state() for b in self.brackets))

    def begin(
        self, state: TournamentState, trials: TrialFactory
    ) -> tuple[TournamentState, Actions]:
        actions: list[Action] = []
        begun: list[AshaState] = []
        for bracket, before in zip(self.brackets, state.brackets, strict=True):
            after, creates = bracket.begin(before, trials)
            begun.append(after)
            actions.extend(creates)
        return TournamentState(tuple(begun)), tuple(actions)

    def on_validation(
        self,
        state: TournamentState,
        request_id: RequestId,
        metrics: JsonMapping,
        trials: TrialFactory,
    ) -> tuple[TournamentState, Actions]:
        return self._in_bracket(
            state, request_id, lambda b, s: b.on_validation(s, request_id, metrics, trials)
        )

    def on_early_exit(
        self,
        state: TournamentState,
        request_id: RequestId,
        reason: ExitReason,
        trials: TrialFactory,
    ) -> tuple[TournamentState, Actions]:
        return self._in_bracket(
            state, request_id, lambda b, s: b.on_early_exit(s, request_id, reason, trials)
        )

    def on_exit(
        self, state: TournamentState, request_id: RequestId, trials: TrialFactory
    ) -> tuple[TournamentState, Actions]:
        return self._in_bracket(state, request_id, lambda b, s: b.on_exit(s, request_id, trials))

    def progress(self, state: TournamentState, progress_sum: ProgressSum) -> float:
        """The plain mean of the brackets', however many trials each has."""
        each = [
            b.progress(s, progress_sum) for b, s in zip(self.brackets, state.brackets, strict=True)
        ]
        return math.fsum(each) / len(each)

    def _in_bracket(
        self, state: TournamentState, request_id: RequestId, step: Step
    ) -> tuple[TournamentState, Actions]:
        """Take the step in the bracket that the trial belongs to."""
        at = next(i for i, b in enumerate(state.brackets) if request_id in b.trials)
        after, actions = step(self.brackets[at], state.brackets[at])
        brackets = (*state.brackets[:at], after, *state.brackets[at + 1 :])
        return TournamentState(brackets), actions
