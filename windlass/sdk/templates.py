"""Templates of configuration: the calls, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.session import Query, Session

Pages: TypeAlias = "Callable[[str, str, Query], Iterable[Json]]"
"""All rows of a list: its path, the key of the rows, and the query."""
_PATH = "/api/v1/templates"


class Templates:
    """Each answer is {"template", "configWarnings"} unless it says otherwise; `config` is a mapping."""

    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages

    def listed(self, *, name: str | None = None, workspace_id: int | None = None) -> list[Json]:
        """By name. `name`: a part of it."""
        query: Query = {"name": name, "workspaceIds": workspace_id, "sortBy": "SORT_BY_NAME"}
        return list(self._pages(_PATH, "templates", query))

    def get(self, name: str) -> Json:
        """The template itself. Raises NotFound."""
        return dict(self._session.get(_one(name))["template"])

    def create(
        self, name: str, config: Mapping[str, Any], *, workspace_id: int | None = None
    ) -> Json:
        """Raises Conflict if there is one of this name."""
        body = {"name": name, "config": dict(config), "workspaceId": workspace_id or 0}
        return self._session.post(_one(name), body)

    def set(self, name: str, config: Mapping[str, Any]) -> Json:
        """Create it, or replace the configuration of the one that is there."""
        body = {"name": name, "config": dict(config), "workspaceId": 0}
        return self._session.request("PUT", _one(name), body=body)

    def set_config(self, name: str, config: Mapping[str, Any]) -> Json:
        """Replace it whole. Raises NotFound."""
        return self._session.request("PATCH", _one(name), body=dict(config))

    def rename(self, old: str, new: str) -> Json:
        """The template itself."""
        body = {"oldName": old, "newName": new}
        answer = self._session.request("PATCH", "/api/v1/template/rename", body=body)
        return dict(answer["template"])

    def remove(self, name: str) -> None:
        """What was launched with it stays as it is. Raises NotFound."""
        self._session.request("DELETE", _one(name))


def _one(name: str) -> str:
    return f"{_PATH}/{quote(name, safe='')}"
