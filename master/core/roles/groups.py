"""Groups, and who holds which role. A user holds a role as the only member of a group of their own would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from master.core.roles.access import Grant
from windlass.base.errors import InvalidArgument, NotFound

PERSONAL = "DeterminedPersonalGroup"
"""Part of the names that the published API gives to groups of one user: no other group may have it."""
MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class Group:
    id: int
    name: str
    members: frozenset[int] = frozenset()
    """Ids of users."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Of a role to a user or to a group, of which the other is None."""

    grant: Grant
    user_id: int | None = None
    group_id: int | None = None


@dataclass(slots=True)
class Directory:
    """All of them."""

    groups: dict[int, Group] = field(default_factory=dict)
    assignments: dict[Assignment, int] = field(default_factory=dict)
    """With the ids of their rows."""

    def group(self, group_id: int) -> Group:
        if group_id not in self.groups:
            raise NotFound("group", group_id)
        return self.groups[group_id]

    def groups_of(self, user_id: int) -> Sequence[Group]:
        """By id."""
        found = (group for group in self.groups.values() if user_id in group.members)
        return sorted(found, key=lambda group: group.id)

    def of_user(self, user_id: int) -> Sequence[Assignment]:
        """The user's own, and those of the user's groups."""
        groups = {group.id for group in self.groups_of(user_id)}
        return [one for one in self.assignments if one.user_id == user_id or one.group_id in groups]

    def in_workspace(self, workspace_id: int) -> Sequence[Assignment]:
        return [one for one in self.assignments if one.grant.workspace_id == workspace_id]


def group_name(name: str) -> str:
    """Raises InvalidArgument."""
    if not 1 <= len(name) <= MAX_NAME:
        raise InvalidArgument(f"name: must have 1 to {MAX_NAME} characters, and has {len(name)}")
    if name != name.strip() or not name.isprintable():
        raise InvalidArgument(
            f"name: {name[:80]!r} must be printable, and must not begin or end with a space"
        )
    if PERSONAL.lower() in name.lower():
        raise InvalidArgument(f"name: must not contain {PERSONAL}: that is kept for single users")
    return name


def summary(grants: Iterable[Grant]) -> Mapping[int, tuple[bool, tuple[int, ...]]]:
    """By role: whether in cluster scope, and in which workspaces."""
    found: dict[int, tuple[bool, set[int]]] = {}
    for grant in grants:
        in_cluster, workspaces = found.get(grant.role_id, (False, set()))
        if grant.workspace_id is None:
            found[grant.role_id] = (True, workspaces)
        else:
            found[grant.role_id] = (in_cluster, {*workspaces, grant.workspace_id})
    return {id_: (one, tuple(sorted(some))) for id_, (one, some) in sorted(found.items())}
