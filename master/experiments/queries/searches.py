"""The state of a search, for screens: of a live experiment from memory, of one that is over from its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from master.core.expconf import ExperimentConfig
from master.core.searcher.event_json import event_from_json
from master.core.searcher.rung_view import RungView, describe_rungs
from master.core.searcher.search import SearchState, resume
from master.core.searcher.state_json import state_from_json
from master.experiments.live import LiveExperiment
from master.experiments.submission.admission import search_of
from master.parsing import in_parsing_thread
from master.store import tables
from master.store.store import Store
from master.store.tables import SearcherSnapshot
from windlass.base.errors import NotFound
from windlass.base.formats.json_types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    """Rungs as `describe_rungs` tells them, and the trial of each request."""

    method: str
    rungs: Sequence[RungView]
    trial_ids: dict[str, int]


class SearchQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, experiment_id: int, live: LiveExperiment | None) -> SearchView:
        """Raises NotFound."""
        if live is not None:
            return SearchView(
                method=live.config.searcher.name,
                rungs=describe_rungs(live.state.searcher),
                trial_ids={t.request_id: t.id for t in live.state.trials.values()},
            )
        config = await self._config(experiment_id)
        state = await self._logged_state(experiment_id, config)
        trial = tables.Trial
        rows = await self._store.read(select(trial).where(trial.experiment_id == experiment_id))
        return SearchView(
            method=config.searcher.name,
            rungs=describe_rungs(state),
            trial_ids={row.request_id: row.id for row in rows},
        )

    async def _config(self, experiment_id: int) -> ExperimentConfig:
        experiment = tables.Experiment
        config: JsonObject | None = await self._store.read_one(
            select(experiment.config).where(experiment.id == experiment_id)
        )
        if config is None:
            raise NotFound("experiment", experiment_id)
        return ExperimentConfig.from_json(config)

    async def _logged_state(self, experiment_id: int, config: ExperimentConfig) -> SearchState:
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
) -> SearchState:
    search = search_of(config)
    start = search.start() if snapshot is None else state_from_json(snapshot.state)
    state, _ = resume(search, start, (event_from_json(event) for event in events))
    return state
