"""The workspace and the project that every cluster has: what names no other is in them."""

from __future__ import annotations

from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork

UNCATEGORIZED = 1
"""The id of both."""
NAME, KEY = "Uncategorized", "UNCAT"


def first_rows(store: Store) -> UnitOfWork:
    """They belong to the first user, and nobody changes them. Asked once, before any other is made."""
    for table in (tables.Workspace, tables.Project):
        if store.next_id(table) != UNCATEGORIZED:
            raise AssertionError("there are workspaces or projects already")
    unit = UnitOfWork()
    owner = {"user_id": 1, "immutable": True, "archived": False, "name": NAME}
    unit.insert(tables.Workspace, {"id": UNCATEGORIZED, **owner})
    project = {"workspace_id": UNCATEGORIZED, "description": "", "key": KEY}
    unit.insert(tables.Project, {"id": UNCATEGORIZED, **project, **owner})
    unit.insert(tables.ProjectKey, {"key": KEY, "project_id": UNCATEGORIZED})
    return unit
