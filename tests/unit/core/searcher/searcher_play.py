"""Plays a search to its end with trials that report, fail, end and repeat themselves in any order."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from master.core.searcher.event_json import event_to_json
from master.core.searcher.search import Search, SearchState
from master.core.searcher.state_json import state_to_json
from master.core.searcher.types import (
    Action,
    Create,
    Event,
    ExitReason,
    InitialTrials,
    Stop,
    TrialCreated,
    TrialExited,
    TrialExitedEarly,
    TrialProgress,
    ValidationCompleted,
)

INVALID = (ExitReason.INVALID_HP, ExitReason.INIT_INVALID_HP)
Check = Callable[[SearchState], None]


@dataclass
class LiveTrial:
    units: int = 0
    early_exit: ExitReason | None = None
    stopped: bool = False


@dataclass
class Play:
    """`invalid_left` bounds invalid trials: with only those a search would go on for ever."""

    search: Search
    chance: random.Random
    check: Check
    invalid_left: int = 5
    max_time: int = 64
    state: SearchState = field(init=False)
    live: dict[str, LiveTrial] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    answers: list[tuple[Action, ...]] = field(default_factory=list)
    states: list[SearchState] = field(default_factory=list)
    replaced: int = 0
    """Trials that were invalid before anything else had ended them."""

    def run(self) -> Play:
        self.state = self.search.start()
        self.check(self.state)
        self._take(InitialTrials())
        while self.live:
            for event in self._next_events():
                self._take(event)
        return self

    @property
    def creates(self) -> list[Create]:
        return [a for actions in self.answers for a in actions if isinstance(a, Create)]

    def _take(self, event: Event) -> None:
        looks_before = _look(self.state) if self.chance.random() < 0.1 else None
        before = self.state
        self.state, actions = self.search.on(before, event)
        if looks_before is not None:
            assert _look(before) == looks_before, "on() changed the state it was given"
        self.events.append(event)
        self.answers.append(actions)
        self.states.append(self.state)
        for action in actions:
            if isinstance(action, Create):
                assert not self.search.is_over(before)
                self.live[action.request_id] = LiveTrial()
            elif isinstance(action, Stop):
                self.live[action.request_id].stopped = True
        self.check(self.state)

    def _next_events(self) -> list[Event]:
        if self.events and self.chance.random() < 0.1:
            return [self.chance.choice(self.events)]
        id_ = self.chance.choice(list(self.live))
        trial = self.live[id_]
        roll = self.chance.random()
        if trial.early_exit is not None or roll < 0.12 or (trial.stopped and roll < 0.5):
            del self.live[id_]
            return [TrialExited(id_)]
        if roll < 0.22:
            return self._early_exit(id_, trial)
        if roll < 0.3:
            return [TrialCreated(id_), TrialProgress(id_, self.chance.uniform(-1, 2))]
        return [self._report(id_, trial)]

    def _early_exit(self, id_: str, trial: LiveTrial) -> list[Event]:
        reason = self.chance.choice(list(ExitReason))
        if reason in INVALID:
            if self.invalid_left == 0:
                return []
            self.invalid_left -= 1
            self.replaced += not trial.stopped
        trial.early_exit = reason
        return [TrialExitedEarly(id_, reason)]

    def _report(self, id_: str, trial: LiveTrial) -> Event:
        trial.units += self.chance.randint(0, self.max_time // 2)
        loss: Any = self.chance.choice(
            [
                self.chance.random(),
                self.chance.random(),
                0.5,
                math.nan,
                "NaN",
                "-Infinity",
                math.inf,
            ]
        )
        return ValidationCompleted(id_, {"loss": loss, "batches": trial.units})


def _look(state: SearchState) -> str:
    return json.dumps(state_to_json(state))


def stored(events: list[Event]) -> list[dict[str, Any]]:
    """The events as a store would keep them."""
    return [json.loads(json.dumps(event_to_json(e), allow_nan=False)) for e in events]
