"""The loop that has points chosen for the trials that wait for them.

A trial is committed with the random point of its search, and does not run before this loop has replaced or kept it.
So nothing is lost by a crash: what still waits is asked again. A sampler that fails costs nothing but its advice: the
random point stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog

from master.core.searcher.sampler_question import (
    Point,
    Tried,
    hparams_at,
    is_random,
    question,
)
from master.experiments.lifecycle.points import choose_points
from master.experiments.lifecycle.state import ExperimentState, Phase, TrialState
from master.experiments.live import LiveExperiment
from master.experiments.sampling.process import Sampler, SamplerFailed
from master.parsing import in_parsing_thread
from windlass.base.formats.json_types import JsonMapping, JsonObject
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 10.0
AT_ONCE = 50
"""Points of one question."""


class PointChooser:
    def __init__(self, live: Callable[[], Iterable[LiveExperiment]], sampler: Sampler) -> None:
        self._live = live
        self._sampler = sampler
        self._loop = Loop("samplers", self._step, interval_s=LOOK_EVERY_S)

    def wake(self) -> None:
        """A trial may wait."""
        self._loop.wake()

    async def run(self) -> None:
        await self._loop.run()

    async def _step(self) -> None:
        for live in list(self._live()):
            while live.search.sampler and (waiting := _waiting(live.state)[:AT_ONCE]):
                points = await self._points(live, waiting)
                await live.apply(partial(choose_points, points=points))

    async def _points(
        self, live: LiveExperiment, waiting: Sequence[TrialState]
    ) -> dict[str, JsonMapping]:
        """The hyperparameters of each trial that waits."""
        kept = {trial.request_id: trial.hparams for trial in waiting}
        guided = [trial for trial in waiting if not is_random(trial.seed)]
        if not guided:
            return kept
        asked = await in_parsing_thread(_question, live.state, live, guided)
        if asked is None:
            return kept
        try:
            points = await self._sampler.ask(asked)
            return kept | _hparams(live, guided, points)
        except (SamplerFailed, ValueError, KeyError, TypeError) as error:
            log.warning(
                "sampler failed: trials keep random hyperparameters",
                experiment=live.id,
                sampler=live.search.sampler,
                trials=[trial.id for trial in guided],
                error=str(error),
            )
            return kept


def _waiting(state: ExperimentState) -> list[TrialState]:
    if state.phase.is_stopping or state.phase.is_terminal:
        return []
    return [t for t in state.trials.values() if t.awaits_point and not t.phase.is_terminal]


def _question(
    state: ExperimentState, live: LiveExperiment, guided: Sequence[TrialState]
) -> JsonObject | None:
    tried = [_tried(trial) for trial in state.trials.values()]
    return question(
        live.search.space,
        state.searcher,
        tried,
        smaller_is_better=state.config.searcher.smaller_is_better,
        count=len(guided),
        seed=guided[0].seed,
    )


def _tried(trial: TrialState) -> Tried:
    """A trial that did not complete says nothing of where its hyperparameters lead."""
    return Tried(
        request_id=trial.request_id,
        hparams=trial.hparams,
        metric=trial.metrics.best if trial.phase is Phase.COMPLETED else None,
        has_ended=trial.phase.is_terminal,
    )


def _hparams(
    live: LiveExperiment, guided: Sequence[TrialState], points: Sequence[Point]
) -> dict[str, JsonMapping]:
    space = live.search.space
    pairs = zip(guided, points, strict=True)
    return {trial.request_id: hparams_at(space, trial.hparams, point) for trial, point in pairs}
