"""The state of a search, for screens: of a live experiment from memory, of one that is over from its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import select

from master.core.expconf import ExperimentConfig
from master.core.searcher.adaptive import Tournament
from master.core.searcher.asha import Asha
from master.core.searcher.event_json import event_from_json
from master.core.searcher.grid import GridAxis, GridSearch, grid_axes
from master.core.searcher.preview import planned_trials
from master.core.searcher.rung_view import RungView, describe_rungs
from master.core.searcher.search import Search, SearchState, resume
from master.core.searcher.state_json import state_from_json
from master.experiments.live import LiveExperiment
from master.experiments.submission.admission import search_of
from master.parsing import in_parsing_thread
from master.store import tables
from master.store.store import Store
from master.store.tables import SearcherSnapshot
from windlass.base.errors import NotFound
from windlass.base.formats.json_types import JsonObject

MOST_GRID_VALUES = 1_000
"""Of one axis: a table has room for less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    """How a search goes by what, rungs as `describe_rungs` tells them, and the trial of each request."""

    method: str
    metric: str
    smaller_is_better: bool
    time_metric: str
    """In whose units rungs are; empty without rungs."""
    divisor: float
    """One in so many goes on from a rung; 0 without rungs."""
    max_trials: int
    """0: as many as there happen to be."""
    rungs: Sequence[RungView]
    grid: Sequence[GridAxis]
    """Empty unless it is a grid."""
    trial_ids: dict[str, int]


class _TrialId(NamedTuple):
    request_id: str
    id: int


class SearchQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, experiment_id: int, live: LiveExperiment | None) -> SearchView:
        """Raises NotFound."""
        if live is not None:
            trials = {trial.request_id: trial.id for trial in live.state.trials.values()}
            return _view(live.config, live.search, live.state.searcher, trials)
        config = await self._config(experiment_id)
        search, state = await self._logged(experiment_id, config)
        trial = tables.Trial
        rows = await self._store.read(
            select(trial.request_id, trial.id).where(trial.experiment_id == experiment_id), _TrialId
        )
        return _view(config, search, state, dict(rows))

    async def _config(self, experiment_id: int) -> ExperimentConfig:
        experiment = tables.Experiment
        config: JsonObject | None = await self._store.read_one(
            select(experiment.config).where(experiment.id == experiment_id)
        )
        if config is None:
            raise NotFound("experiment", experiment_id)
        return ExperimentConfig.from_json(config)

    async def _logged(
        self, experiment_id: int, config: ExperimentConfig
    ) -> tuple[Search, SearchState]:
        """The newest snapshot plus a replay of the events after it."""
        snapshots, event = tables.SearcherSnapshot, tables.SearcherEvent
        snapshot = await self._store.read_one(
            select(snapshots).where(snapshots.experiment_id == experiment_id)
        )
        events = await self._store.read(
            select(event.event)
            .where(
                event.experiment_id == experiment_id,
                event.seq > (snapshot.seq if snapshot is not None else 0),
            )
            .order_by(event.seq)
        )
        return await in_parsing_thread(_replayed, config, snapshot, events)


def _replayed(
    config: ExperimentConfig, snapshot: SearcherSnapshot | None, events: Sequence[JsonObject]
) -> tuple[Search, SearchState]:
    search = search_of(config)
    start = search.start() if snapshot is None else state_from_json(snapshot.state)
    state, _ = resume(search, start, (event_from_json(event) for event in events))
    return search, state


def _view(
    config: ExperimentConfig, search: Search, state: SearchState, trial_ids: dict[str, int]
) -> SearchView:
    method = search.method
    brackets = method.brackets if isinstance(method, Tournament) else (method,)
    halving = [bracket for bracket in brackets if isinstance(bracket, Asha)]
    is_grid = isinstance(method, GridSearch)
    return SearchView(
        method=config.searcher.name,
        metric=config.searcher.metric,
        smaller_is_better=config.searcher.smaller_is_better,
        time_metric=halving[0].time_metric if halving else "",
        divisor=halving[0].divisor if halving else 0.0,
        max_trials=sum(planned.count for planned in planned_trials(search)),
        rungs=describe_rungs(state),
        grid=tuple(grid_axes(search.space, MOST_GRID_VALUES)) if is_grid else (),
        trial_ids=trial_ids,
    )
