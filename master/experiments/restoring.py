"""From rows back to live experiments, after a restart of the master."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Select, func, select

from master.allocations.persistence import newest_allocations
from master.core.expconf import ExperimentConfig
from master.core.searcher.event_json import event_from_json
from master.core.searcher.search import Search, SearchState
from master.core.searcher.state_json import state_from_json
from master.experiments.lifecycle.persistence import trials_in_order
from master.experiments.lifecycle.releases import last_asked_by_others
from master.experiments.lifecycle.state import ExperimentState, Phase
from master.experiments.live import LiveExperiment, LiveParts
from master.experiments.submission.admission import run_settings, search_of
from master.store import tables
from master.store.store import Store
from rm_backends.base import AllocationHint
from windlass.base.errors import NotFound

HEARD_AGAIN = timedelta(minutes=2)
"""A client that could not reach the master tries again after 10 s, at the latest after a minute."""


class StoredExperiment(NamedTuple):
    experiment: tables.Experiment
    owner_name: str
    workspace_id: int


async def rebuild_all(parts: LiveParts) -> list[LiveExperiment]:
    """Every experiment that was not over."""
    over = [p.value for p in Phase if p.is_terminal]
    rows = await parts.store.read(
        _with_owner().where(tables.Experiment.state.not_in(over)), StoredExperiment
    )
    now = parts.clock.now()
    return [
        LiveExperiment(
            parts,
            _spared(await rebuilt(parts.store, row.experiment), now),
            owner_name=row.owner_name,
            workspace_id=row.workspace_id,
        )
        for row in rows
    ]


def _spared(state: ExperimentState, now: datetime) -> ExperimentState:
    """While there was no master, nobody could be heard: unmanaged trials have a little time to be heard again."""
    if not state.unmanaged:
        return state
    active = {r: t for r, t in state.trials.items() if t.phase is Phase.ACTIVE}
    spared = {r: replace(t, not_lost_before=now + HEARD_AGAIN) for r, t in active.items()}
    return replace(state, trials=state.trials.updated(spared))


async def stored(store: Store, experiment_id: int) -> StoredExperiment:
    """Raises NotFound."""
    row = await store.read_one(
        _with_owner().where(tables.Experiment.id == experiment_id), StoredExperiment
    )
    if row is None:
        raise NotFound("experiment", experiment_id)
    return row


def _with_owner() -> Select[tables.Experiment, str, int]:
    experiment, user, project = tables.Experiment, tables.User, tables.Project
    return (
        select(experiment, user.username, project.workspace_id)
        .join(user, user.id == experiment.owner_id)
        .join(project, project.id == experiment.project_id)
    )


async def rebuilt(store: Store, row: tables.Experiment) -> ExperimentState:
    """The state that it was left in, without trials that are being deleted, or of which a deletion failed."""
    config = ExperimentConfig.from_json(row.config)
    experiment_id, position = row.id, row.queue_position
    trial, allocation = tables.Trial, tables.Allocation
    trial_rows = await store.read(
        select(trial).where(trial.experiment_id == experiment_id, trial.deletion == "")
    )
    allocation_rows = await store.read(
        select(allocation)
        .join(trial, trial.task_id == allocation.task_id)
        .where(trial.experiment_id == experiment_id, trial.run_id == allocation.run_id)
    )
    allocations = newest_allocations(allocation_rows)
    searcher, seq = await _restore_searcher(store, experiment_id, search_of(config))
    trials = trials_in_order(trial_rows, allocations, searcher)
    return ExperimentState(
        id=experiment_id,
        job_id=row.job_id,
        owner_id=row.owner_id,
        name=row.name,
        config=config,
        settings=run_settings(
            config, row.resource_pool, None if position is None else Decimal(position)
        ),
        searcher=searcher,
        searcher_seq=seq,
        created_at=row.created_at,
        phase=Phase(row.state),
        unmanaged=row.unmanaged,
        trials=trials,
        open_trials=sum(not trial.phase.is_terminal for trial in trials.values()),
        progress=row.progress,
        error=row.error,
        ended_at=row.ended_at,
        last_release=last_asked_by_others(allocations.values()),
    )


async def _restore_searcher(
    store: Store, experiment_id: int, search: Search
) -> tuple[SearchState, int]:
    """The newest snapshot plus a replay of the events after it."""
    snapshot = await store.read_one(
        select(tables.SearcherSnapshot).where(
            tables.SearcherSnapshot.experiment_id == experiment_id
        )
    )
    state, seq = (
        (search.start(), 0) if snapshot is None else (state_from_json(snapshot.state), snapshot.seq)
    )
    event = tables.SearcherEvent
    rows = await store.read(
        select(event)
        .where(event.experiment_id == experiment_id, event.seq > seq)
        .order_by(event.seq)
    )
    for row in rows:
        state, _ = search.on(state, event_from_json(row.event))
        seq = row.seq
    return state, seq


class _Saved(NamedTuple):
    allocation_id: str
    at: datetime


async def last_checkpoints(store: Store) -> list[AllocationHint]:
    """When each open allocation last saved its work."""
    allocation, checkpoint = tables.Allocation, tables.Checkpoint
    newest = func.max(checkpoint.reported_at)
    rows = await store.read(
        select(allocation.id, newest)
        .join(checkpoint, checkpoint.task_id == allocation.task_id)
        .where(
            allocation.is_open,
            checkpoint.run_id == allocation.run_id,
            checkpoint.state == "COMPLETED",
        )
        .group_by(allocation.id),
        _Saved,
    )
    return [AllocationHint(allocation_id=row.allocation_id, last_checkpoint=row.at) for row in rows]
