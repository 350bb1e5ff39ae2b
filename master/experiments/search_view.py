"""The state of a search, for screens: of a live experiment from memory, of one that is over from its log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlmodel import col

from master.core.expconf import ExperimentConfig
from master.core.searcher.event_json import event_from_json
from master.core.searcher.rung_view import RungView, describe_rungs
from master.core.searcher.search import SearchState, resume
from master.core.searcher.state_json import state_from_json
from master.experiments.live import LiveExperiment, search_of
from master.store import tables
from master.store.paging import Row
from master.store.statements import table_of
from master.store.store import Store
from windlass.base.errors import NotFound


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
                method=str(live.config.to_json()["searcher"]["name"]),
                rungs=describe_rungs(live.state.searcher),
                trial_ids={t.request_id: t.id for t in live.state.trials.values()},
            )
        config = await self._config(experiment_id)
        state = await self._logged_state(experiment_id, config)
        trial = tables.Trial
        rows = await self._store.rows(
            select(col(trial.id), col(trial.request_id)).where(
                col(trial.experiment_id) == experiment_id
            )
        )
        return SearchView(
            method=str(config["searcher"]["name"]),
            rungs=describe_rungs(state),
            trial_ids={row["request_id"]: row["id"] for row in rows},
        )

    async def _config(self, experiment_id: int) -> dict[str, Any]:
        experiment = tables.Experiment
        row = await self._store.row(
            select(col(experiment.config)).where(col(experiment.id) == experiment_id)
        )
        if row is None:
            raise NotFound("experiment", experiment_id)
        config: dict[str, Any] = row["config"]
        return config

    async def _logged_state(self, experiment_id: int, config: dict[str, Any]) -> SearchState:
        """The newest snapshot plus a replay of the events after it."""
        snapshots, event = tables.SearcherSnapshot, tables.SearcherEvent
        snapshot = await self._store.row(
            select(table_of(snapshots)).where(col(snapshots.experiment_id) == experiment_id)
        )
        rows = await self._store.rows(
            select(col(event.event))
            .where(
                col(event.experiment_id) == experiment_id,
                col(event.seq) > (snapshot["seq"] if snapshot is not None else 0),
            )
            .order_by(col(event.seq))
        )
        return await asyncio.to_thread(_replayed, config, snapshot, rows)


def _replayed(config: dict[str, Any], snapshot: Row | None, rows: Sequence[Row]) -> SearchState:
    search = search_of(ExperimentConfig.from_json(config))
    start = search.start() if snapshot is None else state_from_json(snapshot["state"])
    state, _ = resume(search, start, (event_from_json(row["event"]) for row in rows))
    return state
