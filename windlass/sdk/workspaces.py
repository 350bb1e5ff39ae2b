"""Workspaces and projects: the calls, by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.session import Query, Session

Pages: TypeAlias = "Callable[[str, str, Query], Iterable[Json]]"
"""All rows of a list: its path, the key of the rows, and the query."""
_WORKSPACES, _PROJECTS = "/api/v1/workspaces", "/api/v1/projects"


class Workspaces:
    """Each answer is the workspace itself unless it says otherwise."""

    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages

    def listed(self, *, archived: bool | None = None) -> list[Json]:
        query: Query = {"archived": archived, "sortBy": "SORT_BY_NAME"}
        return list(self._pages(_WORKSPACES, "workspaces", query))

    def create(self, name: str, **more: Any) -> Json:
        """`more`: keys of the request. Raises Conflict for a name that is taken."""
        return dict(self._session.post(_WORKSPACES, {"name": name, **more})["workspace"])

    def edit(self, workspace_id: int, changes: Mapping[str, Any]) -> Json:
        answer = self._session.request("PATCH", f"{_WORKSPACES}/{workspace_id}", body=dict(changes))
        return dict(answer["workspace"])

    def set_archived(self, workspace_id: int, archived: bool) -> None:
        self._session.post(f"{_WORKSPACES}/{workspace_id}/{_verb(archived)}")

    def pools(self, workspace_id: int) -> list[str]:
        """Names of those that its work may use."""
        path = f"{_WORKSPACES}/{workspace_id}/available-resource-pools"
        return list(self._pages(path, "resourcePools", {}))  # type: ignore[arg-type]

    def delete(self, workspace_id: int) -> bool:
        """Whether it is gone already."""
        answer = self._session.request("DELETE", f"{_WORKSPACES}/{workspace_id}")
        return bool(answer["completed"])


class Projects:
    """Each answer is the project itself unless it says otherwise."""

    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages

    def listed(self, workspace_id: int = 0, *, archived: bool | None = None) -> list[Json]:
        """Of one workspace; of all for 0."""
        query: Query = {"archived": archived, "sortBy": "SORT_BY_NAME"}
        return list(self._pages(f"{_WORKSPACES}/{workspace_id}/projects", "projects", query))

    def create(
        self, workspace_id: int, name: str, *, description: str = "", key: str | None = None
    ) -> Json:
        """`key`: made from the name, unless it is given. Raises Conflict for a name or a key that is taken."""
        body = {"name": name, "description": description, "key": key, "workspaceId": workspace_id}
        return dict(self._session.post(f"{_WORKSPACES}/{workspace_id}/projects", body)["project"])

    def edit(self, project_id: int, changes: Mapping[str, Any]) -> Json:
        answer = self._session.request("PATCH", f"{_PROJECTS}/{project_id}", body=dict(changes))
        return dict(answer["project"])

    def set_archived(self, project_id: int, archived: bool) -> None:
        self._session.post(f"{_PROJECTS}/{project_id}/{_verb(archived)}")

    def move(self, project_id: int, workspace_id: int) -> None:
        """With its experiments."""
        body = {"projectId": project_id, "destinationWorkspaceId": workspace_id}
        self._session.post(f"{_PROJECTS}/{project_id}/move", body)

    def delete(self, project_id: int) -> bool:
        """Whether it is gone already."""
        answer = self._session.request("DELETE", f"{_PROJECTS}/{project_id}")
        return bool(answer["completed"])


def _verb(archived: bool) -> str:
    return "archive" if archived else "unarchive"
