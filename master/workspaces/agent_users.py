"""Whom the tasks of each workspace run as, in memory: it is needed where a task starts, without a query."""

from __future__ import annotations

from sqlalchemy import select

from master.allocations.identities import WorkspaceUser
from master.store import tables
from master.store.store import Store


class AgentUsers:
    def __init__(self) -> None:
        self._of: dict[int, WorkspaceUser] = {}

    async def load(self, store: Store) -> None:
        """Once, after the lease was taken."""
        workspace = tables.Workspace
        rows = await store.read(select(workspace).where(workspace.agent_user_group.is_not(None)))
        self._of = {row.id: WorkspaceUser.model_validate(row.agent_user_group) for row in rows}

    def register(self, workspace_id: int, stored: object) -> None:
        """What its row says from now on; None: nothing."""
        if stored is None:
            self._of.pop(workspace_id, None)
        else:
            self._of[workspace_id] = WorkspaceUser.model_validate(stored)

    def of(self, workspace_id: int) -> WorkspaceUser | None:
        """None: the workspace says nothing."""
        return self._of.get(workspace_id)
