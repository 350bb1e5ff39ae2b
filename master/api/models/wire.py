"""Models and their versions on the wire."""

from __future__ import annotations

from collections.abc import Sequence

from master.api.checkpoints.shown import with_metrics
from master.api.models.replies import Model, ModelVersion
from master.api.services import ApiContext
from master.api.values import finite, time
from master.core.visibility import Visibility
from master.models.queries import ModelRow, VersionRow


def model(row: ModelRow) -> Model:
    stored = row.model
    return {
        "id": stored.id,
        "name": stored.name,
        "description": stored.description,
        "notes": stored.notes,
        "labels": stored.labels,
        "metadata": finite(stored.meta),
        "archived": stored.archived,
        "numVersions": row.num_versions,
        "workspaceId": stored.workspace_id,
        "userId": stored.owner_id,
        "username": row.username,
        "creationTime": time(stored.created_at),
        "lastUpdatedTime": time(stored.modified_at),
    }


async def versions(
    api: ApiContext, of: ModelRow, rows: Sequence[VersionRow], visible: Visibility
) -> list[ModelVersion]:
    """Each with its whole checkpoint, whose row stays as long as it does."""
    uuids = [row.version.checkpoint_uuid for row in rows]
    stored = await api.reads.checkpoints.by_uuid(list(dict.fromkeys(uuids)))
    shown = {one["uuid"]: one for one in await with_metrics(api, stored, visible)}
    above = model(of)
    return [
        {
            "id": row.version.id,
            "version": row.version.version,
            "model": above,
            "checkpoint": shown[row.version.checkpoint_uuid],
            "name": row.version.name,
            "comment": row.version.comment,
            "notes": row.version.notes,
            "labels": row.version.labels,
            "metadata": finite(row.version.meta),
            "userId": row.version.owner_id,
            "username": row.username,
            "creationTime": time(row.version.created_at),
            "lastUpdatedTime": time(row.version.modified_at),
        }
        for row in rows
        # One may have been deleted since, with its checkpoint.
        if row.version.checkpoint_uuid in shown
    ]
