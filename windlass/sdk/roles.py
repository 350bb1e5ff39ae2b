"""Groups of users, and roles: the calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.base.errors import NotFound
from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.session import Session

_GROUPS, _ROLES = "/api/v1/groups", "/api/v1/roles"
PAGE = 500
"""The most that one answer has."""


class Groups:
    """Each answer is {"groupId", "name", "users"} unless it says otherwise."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def listed(self, *, user_id: int | None = None) -> list[Json]:
        """Those that the caller may see: {"group": {"groupId", "name"}, "numMembers"}. `user_id`: whose they are."""
        found: list[Json] = []
        while True:
            body = {"limit": PAGE, "offset": len(found), "userId": user_id}
            answer = self._session.post(f"{_GROUPS}/search", body)
            found += answer["groups"]
            if len(found) >= answer["pagination"]["total"] or not answer["groups"]:
                return found

    def named(self, name: str) -> int:
        """Its id. Raises NotFound."""
        found = self._session.post(f"{_GROUPS}/search", {"limit": 1, "name": name})["groups"]
        if not found:
            raise NotFound("group", name)
        return int(found[0]["group"]["groupId"])

    def get(self, group_id: int) -> Json:
        return dict(self._session.get(f"{_GROUPS}/{group_id}")["group"])

    def create(self, name: str, user_ids: Sequence[int] = ()) -> Json:
        body = {"name": name, "addUsers": list(user_ids)}
        return dict(self._session.post(_GROUPS, body)["group"])

    def edit(
        self,
        group_id: int,
        *,
        name: str | None = None,
        add: Sequence[int] = (),
        remove: Sequence[int] = (),
    ) -> Json:
        """All of it, or nothing."""
        body = {"name": name, "addUsers": list(add), "removeUsers": list(remove)}
        return dict(self._session.request("PUT", f"{_GROUPS}/{group_id}", body=body)["group"])

    def delete(self, group_id: int) -> None:
        """With the roles that it holds."""
        self._session.request("DELETE", f"{_GROUPS}/{group_id}")


class Roles:
    def __init__(self, session: Session) -> None:
        self._session = session

    def listed(self) -> list[Json]:
        """Those that the caller may see: {"roleId", "name", "permissions", "scopeTypeMask"}."""
        return list(self._session.post(f"{_ROLES}/search", {"limit": PAGE})["roles"])

    def named(self, name: str) -> Json:
        """Any of the cluster's, whether or not the caller may give it. Raises NotFound."""
        body = {"limit": PAGE, "workspaceId": 0}
        for role in self._session.post(f"{_ROLES}/search/by-assignability", body)["roles"]:
            if role["name"].lower() == name.lower():
                return dict(role)
        raise NotFound("role", name)

    def own(self) -> Json:
        """{"roles", "assignments"}: the caller's, each role once."""
        return self._session.get("/api/v1/permissions/summary")

    def with_assignments(self, role_id: int) -> Json:
        """{"role", "userRoleAssignments", "groupRoleAssignments"}."""
        return self.assignments([role_id])[0]

    def assignments(self, role_ids: Sequence[int]) -> list[Json]:
        """The same, of several."""
        answer = self._session.post(f"{_ROLES}/search/by-ids", {"roleIds": list(role_ids)})
        return list(answer["roles"])

    def of_user(self, user_id: int) -> list[Json]:
        """The same, of the user and of the user's groups."""
        return list(self._session.get(f"{_ROLES}/search/by-user/{user_id}")["roles"])

    def of_group(self, group_id: int) -> Json:
        """{"roles", "assignments"}: both in the same order."""
        return self._session.get(f"{_ROLES}/search/by-group/{group_id}")

    def in_workspace(self, workspace_id: int) -> Json:
        """{"usersAssignedDirectly", "groups", "assignments"}: who holds a role in just this workspace."""
        return self._session.get(f"{_ROLES}/workspace/{workspace_id}")

    def assign(
        self,
        role_id: int,
        *,
        user_id: int | None = None,
        group_id: int | None = None,
        workspace_id: int | None = None,
    ) -> None:
        """To a user or a group, in a workspace or in the cluster. Raises Conflict for what is assigned already."""
        body = _assignment(role_id, user_id, group_id, workspace_id)
        self._session.post(f"{_ROLES}/add-assignments", body)

    def unassign(
        self,
        role_id: int,
        *,
        user_id: int | None = None,
        group_id: int | None = None,
        workspace_id: int | None = None,
    ) -> None:
        """Raises NotFound for what is not assigned."""
        body = _assignment(role_id, user_id, group_id, workspace_id)
        self._session.post(f"{_ROLES}/remove-assignments", body)


def _assignment(
    role_id: int, user_id: int | None, group_id: int | None, workspace_id: int | None
) -> Json:
    one = {"role": {"roleId": role_id}, "scopeWorkspaceId": workspace_id}
    if user_id is not None:
        return {"userRoleAssignments": [{"userId": user_id, "roleAssignment": one}]}
    return {"groupRoleAssignments": [{"groupId": group_id, "roleAssignment": one}]}
