"""Reads of checkpoints: light keys to sort and cut a list by, then whole rows for one page of it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlmodel import col

from master.core.visibility import Visibility
from master.experiments.metric_queries import AT_ONCE
from master.store import tables
from master.store.paging import Row, Statement
from master.store.statements import table_of
from master.store.store import Store
from master.store.visible import experiment_visible
from windlass.base.errors import NotFound

_C, _T, _E = tables.Checkpoint, tables.Trial, tables.Experiment


class CheckpointQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def checkpoint(self, uuid: str, visible: Visibility) -> Row:
        here = (col(_C.uuid) == uuid, *experiment_visible(col(_C.experiment_id), visible))
        row = await self._store.row(_whole().where(*here))
        if row is None:
            raise NotFound("checkpoint", uuid)
        return row

    async def keys(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        states: Sequence[str] = (),
    ) -> Sequence[Row]:
        """uuid, trial, steps, state and time of the checkpoints of an experiment or a trial, oldest first."""
        statement = select(
            col(_C.uuid), col(_C.trial_id), col(_C.steps), col(_C.state), col(_C.reported_at)
        ).order_by(col(_C.reported_at), col(_C.uuid))
        if experiment_id is not None:
            statement = statement.where(col(_C.experiment_id) == experiment_id)
        if trial_id is not None:
            statement = statement.where(col(_C.trial_id) == trial_id)
        if states:
            statement = statement.where(col(_C.state).in_(states))
        return await self._store.rows(statement)

    async def by_uuid(self, uuids: Sequence[str]) -> list[Row]:
        """Whole rows in the order of `uuids`; those that are gone meanwhile are left out."""
        found: dict[str, Row] = {}
        for start in range(0, len(uuids), AT_ONCE):
            some = uuids[start : start + AT_ONCE]
            rows = await self._store.rows(_whole().where(col(_C.uuid).in_(some)))
            found.update((row["uuid"], row) for row in rows)
        return [found[uuid] for uuid in uuids if uuid in found]

    async def of_trials(self, trial_ids: Sequence[int]) -> list[Row]:
        """Checkpoints of these trials without what they inherit, oldest first."""
        found: list[Row] = []
        for start in range(0, len(trial_ids), AT_ONCE):
            found += await self._store.rows(
                select(table_of(_C))
                .where(col(_C.trial_id).in_(trial_ids[start : start + AT_ONCE]))
                .order_by(col(_C.reported_at), col(_C.uuid))
            )
        return found


def _whole() -> Statement:
    return (
        select(table_of(_C), col(_T.hparams), col(_E.config).label("experiment_config"))
        .outerjoin(_T, col(_T.id) == col(_C.trial_id))
        .outerjoin(_E, col(_E.id) == col(_C.experiment_id))
    )
