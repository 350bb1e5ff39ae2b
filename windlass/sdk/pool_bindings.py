"""Bindings of resource pools to workspaces: the calls, by names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from windlass.sdk.workspaces import Pages

if TYPE_CHECKING:
    from windlass.sdk.session import Session


class PoolBindings:
    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages

    def listed(self, pool: str) -> list[int]:
        """Ids of workspaces; none: the pool is everybody's."""
        return list(self._pages(_path(pool), "workspaceIds", {}))  # type: ignore[arg-type]

    def add(self, pool: str, workspaces: Sequence[str]) -> None:
        """Raises Conflict for a binding that is there."""
        self._change("POST", pool, workspaces)

    def remove(self, pool: str, workspaces: Sequence[str]) -> None:
        """Raises NotFound for a binding that is not there."""
        self._change("DELETE", pool, workspaces)

    def replace(self, pool: str, workspaces: Sequence[str]) -> None:
        """With none the pool is everybody's again."""
        self._change("PUT", pool, workspaces)

    def _change(self, method: str, pool: str, workspaces: Sequence[str]) -> None:
        body = {"resourcePoolName": pool, "workspaceNames": list(workspaces)}
        self._session.request(method, _path(pool), body=body)


def _path(pool: str) -> str:
    return f"/api/v1/resource-pools/{quote(pool, safe='')}/workspace-bindings"
