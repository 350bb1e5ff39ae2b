"""Deleting files that the master cannot reach."""

from __future__ import annotations

from master.checkpoints.planning import Deletion
from master.store import tables


class OnAgents:
    async def delete(self, row: tables.CheckpointGc, deletion: Deletion) -> list[str]:
        return [
            f"the master cannot reach the {deletion.storage.get('type')} storage of experiment {row.experiment_id}"
        ]
