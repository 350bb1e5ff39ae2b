"""Checkpoints with what was measured of them, for every reply that shows some."""

from __future__ import annotations

from collections.abc import Sequence

from master.api.checkpoints import replies
from master.api.checkpoints.wire import checkpoint
from master.api.services import ApiContext
from master.core.visibility import Visibility
from master.experiments.queries.checkpoints import CheckpointKey, CheckpointRow
from master.store.tables import Checkpoint


async def with_metrics(
    api: ApiContext, rows: Sequence[CheckpointRow], visible: Visibility
) -> list[replies.Checkpoint]:
    """Each with the metrics at its steps."""
    averages = await api.reads.metrics.averages_at(places([row.checkpoint for row in rows]))
    secrets = api.services.storage_secrets
    return [
        checkpoint(
            row,
            averages.get((row.checkpoint.trial_id or 0, row.checkpoint.steps), {}),
            visible,
            secrets,
            api.services.experiments.storage_checks.at_cluster_address,
        )
        for row in rows
    ]


def places(rows: Sequence[CheckpointKey | Checkpoint]) -> list[tuple[int, int]]:
    return [(row.trial_id, row.steps) for row in rows if row.trial_id is not None]
