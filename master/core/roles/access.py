"""What one user may do where, computed from the roles that they and their groups hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from master.core.roles.catalogue import Role
from master.core.roles.permissions import Permission

_NONE: frozenset[Permission] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """A role in one workspace, or in the cluster: there, and in each of its workspaces."""

    role_id: int
    workspace_id: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    cluster: frozenset[Permission] = _NONE
    """Held everywhere."""
    workspaces: Mapping[int, frozenset[Permission]] = field(default_factory=dict)
    """Held there besides."""

    def equals(self, other: Access) -> bool:
        """In what they grant; `==` asks whether they are the same object."""
        return self is other or (self.cluster, self.workspaces) == (other.cluster, other.workspaces)

    def allows(self, permission: Permission, workspace_id: int | None = None) -> bool:
        """In a workspace, or in the cluster as such."""
        if permission in self.cluster:
            return True
        return workspace_id is not None and permission in self.workspaces.get(workspace_id, _NONE)

    def allows_somewhere(self, permission: Permission) -> bool:
        return permission in self.cluster or any(
            permission in held for held in self.workspaces.values()
        )

    def where(self, permission: Permission) -> frozenset[int] | None:
        """The workspaces in which it is held; None: in all."""
        if permission in self.cluster:
            return None
        return frozenset(id_ for id_, held in self.workspaces.items() if permission in held)


def access_of(grants: Iterable[Grant], roles: Mapping[int, Role]) -> Access:
    """A role that is not there any more grants nothing, and one of cluster scope alone nothing in a workspace."""
    cluster: frozenset[Permission] = _NONE
    workspaces: dict[int, frozenset[Permission]] = {}
    for grant in grants:
        role = roles.get(grant.role_id)
        if role is None:
            continue
        if grant.workspace_id is None:
            cluster |= role.permissions
        elif not role.is_cluster_only:
            held = workspaces.get(grant.workspace_id, _NONE)
            workspaces[grant.workspace_id] = held | role.permissions
    return Access(cluster, workspaces)
