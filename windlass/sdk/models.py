"""The model registry: the calls, by the name or the id of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.session import Query, Session

Pages: TypeAlias = "Callable[[str, str, Query], Iterable[Json]]"
"""All rows of a list: its path, the key of the rows, and the query."""
_PATH = "/api/v1/models"


class Models:
    """Each answer is the model or the version itself unless it says otherwise. A version has its `checkpoint`."""

    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages

    def listed(
        self,
        *,
        name: str | None = None,
        labels: Sequence[str] = (),
        archived: bool | None = None,
        workspace_id: int | None = None,
    ) -> list[Json]:
        """By name. `name`: a part of it; `labels`: one of them is enough."""
        query: Query = {
            "name": name,
            "labels": list(labels),
            "archived": archived,
            "workspaceIds": workspace_id,
            "sortBy": "SORT_BY_NAME",
        }
        return list(self._pages(_PATH, "models", query))

    def get(self, name: str) -> Json:
        """Raises NotFound."""
        return dict(self._session.get(_one(name))["model"])

    def create(self, name: str, /, **more: Any) -> Json:
        """`more`: keys of the request. Raises Conflict for a name that is taken."""
        return dict(self._session.post(_PATH, {"name": name, **more})["model"])

    def edit(self, name: str, changes: Mapping[str, Any]) -> Json:
        """Labels and metadata are replaced as a whole; `workspaceId` moves it."""
        answer = self._session.request("PATCH", _one(name), body=dict(changes))
        return dict(answer["model"])

    def set_archived(self, name: str, archived: bool) -> None:
        self._session.post(f"{_one(name)}/{'archive' if archived else 'unarchive'}")

    def delete(self, name: str) -> None:
        """With its versions; their checkpoints stay."""
        self._session.request("DELETE", _one(name))

    def versions(self, name: str) -> list[Json]:
        """The newest first."""
        query: Query = {"sortBy": "SORT_BY_VERSION", "orderBy": "ORDER_BY_DESC"}
        return list(self._pages(f"{_one(name)}/versions", "modelVersions", query))

    def version(self, name: str, number: int | None = None) -> Json | None:
        """The newest one, or None if there is none. Raises NotFound for a number that there is not."""
        if number is not None:
            return dict(self._session.get(_version(name, number))["modelVersion"])
        query: Query = {"limit": 1, "sortBy": "SORT_BY_VERSION", "orderBy": "ORDER_BY_DESC"}
        found = self._session.get(f"{_one(name)}/versions", query)["modelVersions"]
        return dict(found[0]) if found else None

    def register(self, name: str, checkpoint: str, /, **more: Any) -> Json:
        """A new version. `more`: keys of the request. From now on the checkpoint is not deleted."""
        body = {"checkpointUuid": checkpoint, "modelName": name, **more}
        return dict(self._session.post(f"{_one(name)}/versions", body)["modelVersion"])

    def edit_version(self, name: str, number: int, changes: Mapping[str, Any]) -> Json:
        answer = self._session.request("PATCH", _version(name, number), body=dict(changes))
        return dict(answer["modelVersion"])

    def delete_version(self, name: str, number: int) -> None:
        """Its checkpoint stays."""
        self._session.request("DELETE", _version(name, number))


def _one(name: str) -> str:
    return f"{_PATH}/{quote(name, safe='')}"


def _version(name: str, number: int) -> str:
    return f"{_one(name)}/versions/{number}"
