"""Checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from master.api.checkpoints import replies
from master.api.checkpoints.replies import CheckpointWorkload, MetricValues
from master.api.enums import CheckpointState
from master.api.values import finite, sizes, time
from master.core.expconf.references import PoolSecrets
from master.core.expconf.secrets import masked
from master.core.visibility import Visibility
from master.experiments.queries.checkpoints import CheckpointRow
from master.experiments.reports.metrics import number
from master.store.tables import Checkpoint


def checkpoint(
    row: CheckpointRow,
    averages: Mapping[str, Mapping[str, Any]],
    visible: Visibility,
    secrets: PoolSecrets,
    at_cluster_address: Callable[[Mapping[str, Any]], bool],
) -> replies.Checkpoint:
    """`averages`: group -> metrics reported at the checkpoint's steps.

    Who may see the storage keys is given those that work now: the published client opens the storage with them.
    """
    config = row.experiment_config
    at_ours = config is not None and at_cluster_address(config["checkpoint_storage"])
    if config is not None and visible.shows_secrets_of(row.experiment_owner):
        storage = secrets.resolved(config["checkpoint_storage"])
        config = {**config, "checkpoint_storage": storage}
    elif config is not None:
        config = masked(config)
    return {
        "uuid": row.checkpoint.uuid,
        "taskId": row.checkpoint.task_id,
        "allocationId": row.checkpoint.allocation_id,
        "reportTime": time(row.checkpoint.reported_at),
        "resources": sizes(row.checkpoint.resources),
        "metadata": finite(row.checkpoint.meta),
        "state": CheckpointState[row.checkpoint.state],
        "storageId": row.checkpoint.storage_id,
        "clusterStorage": at_ours,
        "training": {
            "trialId": row.checkpoint.trial_id,
            "experimentId": row.checkpoint.experiment_id,
            "experimentConfig": finite(config),
            "hparams": finite(row.hparams),
            "trainingMetrics": _metrics(averages.get("training")),
            "validationMetrics": _metrics(averages.get("validation")),
            "searcherMetric": finite(searcher_metric(config, averages)),
        },
    }


def searcher_metric(
    config: Mapping[str, Any] | None, averages: Mapping[str, Mapping[str, Any]]
) -> float | None:
    """The searcher's metric among the validation metrics; None if it is not there or not a number."""
    name = ((config or {}).get("searcher") or {}).get("metric", "")
    return number(averages.get("validation", {}).get(name))


def _metrics(averages: Mapping[str, Any] | None) -> MetricValues | None:
    return None if averages is None else {"avgMetrics": finite(averages), "batchMetrics": []}


def checkpoint_workload(row: Checkpoint) -> CheckpointWorkload:
    state = CheckpointState[row.state]
    # `det trial describe` of the published client ends with an assertion on PARTIALLY_DELETED.
    if state is CheckpointState.PARTIALLY_DELETED:
        state = CheckpointState.COMPLETED
    return {
        "uuid": row.uuid,
        "endTime": time(row.reported_at),
        "state": state,
        "resources": sizes(row.resources),
        "totalBatches": row.steps,
        "metadata": finite(row.meta),
    }
