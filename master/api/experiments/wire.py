"""Experiments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from master.api.enums import ExperimentState
from master.api.experiments.replies import Experiment
from master.api.values import RUN_ORDER, allocation_state, finite, time
from master.core.expconf.secrets import masked
from master.core.reasons import Reason
from master.core.visibility import Visibility
from master.experiments.lifecycle.state import Phase
from master.experiments.live import LiveExperiment
from master.experiments.queries.experiments import ExperimentRow
from master.store.tables import Trial
from windlass.base.formats.json_types import JsonObject


def state(row: ExperimentRow, live: LiveExperiment | None) -> ExperimentState:
    """ACTIVE is refined by what its trials' runs do: the most progressed one tells."""
    phase = live.state.phase if live is not None else Phase(row.experiment.state)
    if phase is not Phase.ACTIVE:
        return ExperimentState[phase]
    if row.experiment.unmanaged:
        return ExperimentState.RUNNING
    if live is None:
        return ExperimentState.QUEUED
    farthest = 0
    for trial in live.state.trials.values():
        farthest = max(farthest, RUN_ORDER.index(allocation_state(trial.open_allocation)))
        if farthest == len(RUN_ORDER) - 1:
            break  # a large search has thousands of trials
    return ExperimentState[RUN_ORDER[farthest]]


def experiment(
    row: ExperimentRow,
    live: LiveExperiment | None,
    now: datetime,
    visible: Visibility,
    *,
    trial_ids: Sequence[int] = (),
    best_trial: Trial | None = None,
    waiting: Reason | None = None,
    notes: str | None = None,
) -> Experiment:
    """`notes` replaces the stored ones: lists hide them."""
    shown = shown_config(row, visible)
    config = shown.config
    searcher = config.get("searcher") or {}
    return {
        "id": row.experiment.id,
        "jobId": row.experiment.job_id,
        "name": row.experiment.name,
        "description": row.experiment.description,
        "labels": row.experiment.labels,
        "notes": row.experiment.notes if notes is None else notes,
        "archived": row.experiment.archived,
        "unmanaged": row.experiment.unmanaged,
        "state": state(row, live),
        "progress": finite(row.experiment.progress),
        "startTime": time(row.experiment.created_at),
        "endTime": time(row.experiment.ended_at),
        "duration": int(
            ((row.experiment.ended_at or now) - row.experiment.created_at).total_seconds()
        ),
        "username": row.username,
        "displayName": row.display_name,
        "userId": row.experiment.owner_id,
        "resourcePool": row.experiment.resource_pool,
        "searcherType": searcher.get("name", ""),
        "searcherMetric": searcher.get("metric"),
        "hyperparameters": finite(config.get("hyperparameters") or {}),
        "config": finite(config),
        "originalConfig": shown.original,
        "numTrials": row.num_trials,
        "trialIds": list(trial_ids),
        "bestTrialId": best_trial.id if best_trial is not None else None,
        "bestTrialSearcherMetric": finite(best_trial.searcher_metric) if best_trial else None,
        "checkpointCount": row.checkpoint_count,
        "checkpointSize": str(row.checkpoint_size),
        "forkedFrom": row.experiment.parent_id,
        "projectId": row.experiment.project_id,
        "projectName": row.project.name,
        "projectOwnerId": row.project.user_id,
        "workspaceId": row.project.workspace_id,
        "workspaceName": row.workspace_name,
        "parentArchived": row.project.archived or row.workspace_archived,
        "externalExperimentId": row.experiment.external_id,
        "error": row.experiment.error,
        "waitingReason": waiting.text if waiting is not None else None,
    }


class _Shown(NamedTuple):
    config: JsonObject
    original: str


def shown_config(row: ExperimentRow, visible: Visibility) -> _Shown:
    """The text as it was submitted may hide a secret anywhere: others are given the complete configuration instead."""
    experiment = row.experiment
    if visible.shows_secrets_of(experiment.owner_id):
        return _Shown(experiment.config, experiment.original_config)
    config = masked(experiment.config)
    return _Shown(config, orjson.dumps(finite(config)).decode())


def nothing() -> Experiment:
    """The reply to "validate only": every key, and no experiment."""
    return {
        "id": 0,
        "jobId": "",
        "name": "",
        "description": "",
        "labels": [],
        "notes": "",
        "archived": False,
        "unmanaged": False,
        "state": ExperimentState.UNSPECIFIED,
        "progress": 0.0,
        "startTime": None,
        "endTime": None,
        "duration": 0,
        "username": "",
        "displayName": "",
        "userId": 0,
        "resourcePool": "",
        "searcherType": "",
        "searcherMetric": None,
        "hyperparameters": {},
        "config": None,
        "originalConfig": "",
        "numTrials": 0,
        "trialIds": [],
        "bestTrialId": None,
        "bestTrialSearcherMetric": None,
        "checkpointCount": 0,
        "checkpointSize": "0",
        "forkedFrom": None,
        "projectId": 0,
        "projectName": "",
        "projectOwnerId": 0,
        "workspaceId": 0,
        "workspaceName": "",
        "parentArchived": False,
        "externalExperimentId": None,
        "error": "",
        "waitingReason": None,
    }
