"""From rows back to live experiments, after a restart of the master."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import func, select

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


class _Row(NamedTuple):
    experiment: tables.Experiment
    owner_name: str
    workspace_id: int


async def rebuild_all(parts: LiveParts) -> list[LiveExperiment]:
    """Every experiment that was not over."""
    experiment, user, project = tables.Experiment, tables.User, tables.Project
    over = [p.value for p in Phase if p.is_terminal]
    rows = await parts.store.read(
        select(experiment, user.username, project.workspace_id)
        .join(user, user.id == experiment.owner_id)
        .join(project, project.id == experiment.project_id)
        .where(experiment.state.not_in(over)),
        _Row,
    )
    return [await _rebuild(parts, row) for row in rows]


async def _rebuild(parts: LiveParts, found: _Row) -> LiveExperiment:
    row = found.experiment
    config = ExperimentConfig.from_json(row.config)
    experiment_id, position = row.id, row.queue_position
    trial, allocation = tables.Trial, tables.Allocation
    trial_rows = await parts.store.read(select(trial).where(trial.experiment_id == experiment_id))
    allocation_rows = await parts.store.read(
        select(allocation)
        .join(trial, trial.task_id == allocation.task_id)
        .where(trial.experiment_id == experiment_id, trial.run_id == allocation.run_id)
    )
    allocations = newest_allocations(allocation_rows)
    searcher, seq = await _restore_searcher(parts.store, experiment_id, search_of(config))
    trials = trials_in_order(trial_rows, allocations)
    state = ExperimentState(
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
        trials=trials,
        open_trials=sum(not trial.phase.is_terminal for trial in trials.values()),
        progress=row.progress,
        error=row.error,
        last_release=last_asked_by_others(allocations.values()),
    )
    return LiveExperiment(
        parts, state, owner_name=found.owner_name, workspace_id=found.workspace_id
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
