"""Drawing trials: hyperparameters, identity, seed, always in that order, or old seeds give other trials."""

from __future__ import annotations

import uuid
from copy import deepcopy
from typing import Any

from master.core.searcher.rng import Draws, RngState
from master.core.searcher.space import Choice, Const, DoubleRange, IntRange, LogRange, Nested, Space
from master.core.searcher.types import Create
from windlass.base.formats.json_types import JsonMapping

TRIAL_SEEDS = 2**31
"""Trial seeds are integers below this: what 32-bit signed seeds of training libraries can hold."""


def sample(space: Space, draws: Draws) -> Any:
    """One value of the space. Names are visited in byte order at every depth, constants draw nothing."""
    match space:
        case Const(value):
            return deepcopy(value)
        case IntRange(minval, maxval):
            return minval + draws.below(maxval - minval + 1)
        case DoubleRange(minval, maxval):
            return draws.uniform(minval, maxval)
        case LogRange(base, minval, maxval):
            return base ** draws.uniform(minval, maxval)
        case Choice(values):
            return deepcopy(values[draws.below(len(values))])
        case Nested(items):
            return {name: sample(child, draws) for name, child in items}


class TrialFactory:
    """Makes the trials of one step, advancing the search's random stream. Short-lived: `rng_state` ends it."""

    def __init__(self, rng: RngState, space: Nested) -> None:
        self._draws = Draws(rng)
        self._space = space

    def sample(self) -> Create:
        """A trial at a random point of the space."""
        return self.at(sample(self._space, self._draws))

    def at(self, hparams: JsonMapping, *, checkpoint: str | None = None) -> Create:
        """A trial at a given point: only its identity and seed are drawn."""
        request_id = uuid.UUID(bytes=self._draws.bytes16(), version=4)
        seed = self._draws.below(TRIAL_SEEDS)
        return Create(str(request_id), seed, hparams, checkpoint)

    def rng_state(self) -> RngState:
        return self._draws.state()
