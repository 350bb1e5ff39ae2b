"""Experiments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from master.api.enums import ExperimentState
from master.api.experiments.replies import ConfigOrigin, Experiment
from master.api.values import RUN_ORDER, allocation_state, finite, time
from master.core.expconf.origins import Origin
from master.core.expconf.secrets import masked
from master.core.reasons import Reason
from master.core.visibility import Visibility
from master.experiments.lifecycle.state import Phase
from master.experiments.live import LiveExperiment
from master.experiments.queries.experiments import ExperimentRow, ExperimentSummary
from master.store.tables import Trial
from windlass.base.formats.json_types import JsonObject

OMITTED = "omitted"
"""What lists show instead of notes."""


def state(row: ExperimentSummary, live: LiveExperiment | None) -> ExperimentState:
    """ACTIVE is refined by what its trials' runs do: the most progressed one tells."""
    phase = live.state.phase if live is not None else Phase(row.state)
    if phase is not Phase.ACTIVE:
        return ExperimentState[phase]
    if row.unmanaged:
        return ExperimentState.RUNNING
    return ExperimentState.QUEUED if live is None else ExperimentState[active_state(live)]


def active_state(live: LiveExperiment) -> str:
    """QUEUED, PULLING, STARTING or RUNNING: what its most progressed trial does."""
    farthest = 0
    for trial in live.state.trials.values():
        farthest = max(farthest, RUN_ORDER.index(allocation_state(trial.open_allocation)))
        if farthest == len(RUN_ORDER) - 1:
            break  # a large search has thousands of trials
    return RUN_ORDER[farthest]


def summary(
    row: ExperimentSummary,
    live: LiveExperiment | None,
    now: datetime,
    *,
    waiting: Reason | None = None,
) -> Experiment:
    """Without its configuration, and what is read from it."""
    return {
        "id": row.id,
        "jobId": row.job_id,
        "name": row.name,
        "description": row.description,
        "labels": row.labels,
        "notes": OMITTED,
        "archived": row.archived,
        "unmanaged": row.unmanaged,
        "state": state(row, live),
        "progress": finite(row.progress),
        "startTime": time(row.created_at),
        "endTime": time(row.ended_at),
        "duration": max(0, int(((row.ended_at or now) - row.created_at).total_seconds())),
        "username": row.username,
        "displayName": row.display_name,
        "userId": row.owner_id,
        "resourcePool": row.resource_pool,
        "searcherType": "",
        "searcherMetric": None,
        "hyperparameters": {},
        "config": None,
        "originalConfig": "",
        "numTrials": row.num_trials,
        "trialIds": [],
        "bestTrialId": None,
        "bestTrialSearcherMetric": None,
        "checkpointCount": row.checkpoint_count,
        "checkpointSize": str(row.checkpoint_size),
        "forkedFrom": row.parent_id,
        "projectId": row.project_id,
        "projectName": row.project_name,
        "projectOwnerId": row.project_owner_id,
        "workspaceId": row.workspace_id,
        "workspaceName": row.workspace_name,
        "parentArchived": row.project_archived or row.workspace_archived,
        "externalExperimentId": row.external_id,
        "error": row.error,
        "waitingReason": waiting.text if waiting is not None else None,
    }


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
    searcher = shown.config.get("searcher") or {}
    whole = summary(row.summary, live, now, waiting=waiting)
    whole["notes"] = row.experiment.notes if notes is None else notes
    whole["searcherType"] = searcher.get("name", "")
    whole["searcherMetric"] = searcher.get("metric")
    whole["config"] = config = finite(shown.config)
    whole["hyperparameters"] = config.get("hyperparameters") or {}
    whole["originalConfig"] = shown.original
    whole["trialIds"] = list(trial_ids)
    if best_trial is not None:
        whole["bestTrialId"] = best_trial.id
        whole["bestTrialSearcherMetric"] = finite(best_trial.searcher_metric)
    return whole


def origins_json(origins: Sequence[Origin] | None) -> list[ConfigOrigin] | None:
    if origins is None:
        return None
    return [{"path": one.path, "source": one.source, "name": one.name} for one in origins]


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
