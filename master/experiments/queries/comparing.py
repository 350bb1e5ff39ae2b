"""Reads for comparing experiments: the best trial of each, at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import func, select

from master.store.store import Store
from master.store.tables import Trial


class _Best(NamedTuple):
    experiment_id: int
    trial_id: int


class ComparisonQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def best_trials(self, smaller_is_better: Mapping[int, bool]) -> dict[int, int]:
        """By experiment, the trial with its best searcher metric; without those that have none yet."""
        found: dict[int, int] = {}
        for smaller in (True, False):
            ids = [id_ for id_, its in smaller_is_better.items() if its is smaller]
            metric = Trial.searcher_metric
            best_first = (metric.asc() if smaller else metric.desc(), Trial.id)
            place = func.row_number().over(partition_by=Trial.experiment_id, order_by=best_first)
            ranked = (
                select(Trial.experiment_id, Trial.id, place.label("place"))
                .where(Trial.experiment_id.in_(ids), metric.is_not(None))
                .subquery()
            )
            best = select(ranked.c.experiment_id, ranked.c.id).where(ranked.c.place == 1)
            rows = await self._store.read(best, _Best) if ids else []
            found |= {row.experiment_id: row.trial_id for row in rows}
        return found
