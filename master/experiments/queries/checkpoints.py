"""Reads of checkpoints: light keys to sort and cut a list by, then whole rows for one page of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Select, select

from master.core.visibility import Visibility
from master.experiments.queries.metrics import AT_ONCE
from master.store import tables
from master.store.store import Store
from master.store.visible import experiment_visible
from windlass.base.errors import NotFound
from windlass.base.formats.json_types import JsonObject

_C, _T, _E = tables.Checkpoint, tables.Trial, tables.Experiment


class CheckpointKey(NamedTuple):
    """What a list is sorted by."""

    uuid: str
    trial_id: int | None
    steps: int
    state: str
    reported_at: datetime


class CheckpointRow(NamedTuple):
    """A checkpoint with what it inherits from its trial and its experiment."""

    checkpoint: tables.Checkpoint
    hparams: JsonObject | None
    experiment_config: JsonObject | None
    experiment_owner: int | None


class CheckpointQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def checkpoint(self, uuid: str, visible: Visibility) -> CheckpointRow:
        here = (_C.uuid == uuid, *experiment_visible(_C.experiment_id, visible))
        row = await self._store.read_one(_whole().where(*here), CheckpointRow)
        if row is None:
            raise NotFound("checkpoint", uuid)
        return row

    async def keys(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        states: Sequence[str] = (),
    ) -> Sequence[CheckpointKey]:
        """Of the checkpoints of an experiment or a trial, oldest first."""
        statement = select(_C.uuid, _C.trial_id, _C.steps, _C.state, _C.reported_at).order_by(
            _C.reported_at, _C.uuid
        )
        if experiment_id is not None:
            statement = statement.where(_C.experiment_id == experiment_id)
        if trial_id is not None:
            statement = statement.where(_C.trial_id == trial_id)
        if states:
            statement = statement.where(_C.state.in_(states))
        return await self._store.read(statement, CheckpointKey)

    async def by_uuid(self, uuids: Sequence[str]) -> list[CheckpointRow]:
        """Whole rows in the order of `uuids`; those that are gone meanwhile are left out."""
        found: dict[str, CheckpointRow] = {}
        for start in range(0, len(uuids), AT_ONCE):
            some = uuids[start : start + AT_ONCE]
            rows = await self._store.read(_whole().where(_C.uuid.in_(some)), CheckpointRow)
            found.update((row.checkpoint.uuid, row) for row in rows)
        return [found[uuid] for uuid in uuids if uuid in found]

    async def of_trials(self, trial_ids: Sequence[int]) -> list[tables.Checkpoint]:
        """Checkpoints of these trials without what they inherit, oldest first."""
        found: list[tables.Checkpoint] = []
        for start in range(0, len(trial_ids), AT_ONCE):
            found += await self._store.read(
                select(_C)
                .where(_C.trial_id.in_(trial_ids[start : start + AT_ONCE]))
                .order_by(_C.reported_at, _C.uuid)
            )
        return found


def _whole() -> Select[tables.Checkpoint, JsonObject, JsonObject, int]:
    return (
        select(_C, _T.hparams, _E.config, _E.owner_id)
        .outerjoin(_T, _T.id == _C.trial_id)
        .outerjoin(_E, _E.id == _C.experiment_id)
    )
