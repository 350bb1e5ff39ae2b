"""Groups and roles: who holds what, in memory; a change is committed before it shows, and decides from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog
from sqlalchemy import select

from master.auth.role_rules import RoleRules
from master.core.actor import Actor
from master.core.roles.access import Access, Grant, access_of
from master.core.roles.catalogue import Role, RoleId, roles
from master.core.roles.groups import Assignment, Directory, Group, group_name
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.errors import Conflict, InvalidArgument, NotFound

log = structlog.get_logger(__name__)

MAX_GROUPS = 10_000
"""A program that makes one for each of its runs is told so, and fills no database."""
Membership = tuple[int, int]
"""A group and a user."""
EXISTS = "row already exists"


class RoleService:
    """One mailbox serialises all changes; what a user may do is computed once after each of them."""

    def __init__(
        self, store: Store, *, own_roles: Sequence[Role] = (), creators_role: int | None = None
    ) -> None:
        """`creators_role`: what whoever creates a workspace holds in it; None: nothing."""
        self.roles: Mapping[int, Role] = roles(own_roles)
        self._store = store
        self._creators_role = creators_role
        self._queue = SerialQueue("roles")
        self._all = Directory()
        self._access: dict[int, Access] = {}
        self._changed: Callable[[], None] = lambda: None

    def report_changes(self, changed: Callable[[], None]) -> None:
        """`changed` is called after each of them, once it decides."""
        self._changed = changed

    async def load(self) -> None:
        """Once, after the lease was taken."""
        groups, members, assigned = tables.UserGroup, tables.UserGroupMember, tables.RoleAssignment
        belong: dict[int, set[int]] = {}
        for row in await self._store.read(select(members)):
            belong.setdefault(row.group_id, set()).add(row.user_id)
        self._all = Directory(
            groups={
                row.id: Group(row.id, row.name, frozenset(belong.get(row.id, ())))
                for row in await self._store.read(select(groups).order_by(groups.id))
            },
            assignments={
                Assignment(Grant(row.role_id, row.workspace_id), row.user_id, row.group_id): row.id
                for row in await self._store.read(select(assigned).order_by(assigned.id))
            },
        )
        self._access = {}

    async def ensure_administrator(self, user_id: int, *, by: Actor) -> None:
        """Where nobody holds any role this one administrates the cluster. To be called at the start, after `load`."""
        if not self._all.assignments:
            await self.make_administrator(user_id, by=by)

    async def make_administrator(self, user_id: int, *, by: Actor) -> None:
        """Nothing happens if the user is one."""
        one = Assignment(Grant(RoleId.CLUSTER_ADMIN), user_id=user_id)
        if one not in self._all.assignments:
            await self.assign([one], by=by)

    # What there is

    def rules_of(self, user_id: int) -> RoleRules:
        return RoleRules(self.access_of(user_id))

    def access_of(self, user_id: int) -> Access:
        access = self._access.get(user_id)
        if access is None:
            grants = (one.grant for one in self._all.of_user(user_id))
            access = self._access[user_id] = access_of(grants, self.roles)
        return access

    def groups(self) -> Sequence[Group]:
        """By id."""
        return sorted(self._all.groups.values(), key=lambda group: group.id)

    def group(self, group_id: int) -> Group:
        """Raises NotFound."""
        return self._all.group(group_id)

    def role(self, role_id: int) -> Role:
        """Raises NotFound."""
        if role_id not in self.roles:
            raise NotFound("role", role_id)
        return self.roles[role_id]

    def assignments(self) -> Sequence[Assignment]:
        """In the order in which they were made."""
        return list(self._all.assignments)

    def of_user(self, user_id: int) -> Sequence[Assignment]:
        """The user's own, and those of the user's groups."""
        return self._all.of_user(user_id)

    def in_workspace(self, workspace_id: int) -> Sequence[Assignment]:
        return self._all.in_workspace(workspace_id)

    # Groups

    async def create_group(self, name: str, members: Sequence[int], *, by: Actor) -> Group:
        """`members` are ids of users that there are. Raises InvalidArgument, Conflict."""
        name = group_name(name)
        _require_different(members)

        async def turn() -> Group:
            self._require_free(name)
            if len(self._all.groups) >= MAX_GROUPS:
                raise InvalidArgument(f"there are {MAX_GROUPS} groups already: delete some")
            group = Group(self._store.next_id(tables.UserGroup), name, frozenset(members))
            unit = UnitOfWork()
            unit.insert(tables.UserGroup, {"id": group.id, "name": name})
            _add(unit, [(group.id, user) for user in members])
            await self._store.commit(unit)
            self._set(group)
            return group

        group = await self._queue.run(turn)
        log.info("group created", group=group.id, name=name, members=sorted(members), by=str(by))
        return group

    async def update_group(
        self,
        group_id: int,
        *,
        name: str | None = None,
        add: Sequence[int] = (),
        remove: Sequence[int] = (),
        by: Actor,
    ) -> Group:
        """All of it or nothing. Raises NotFound (who is no member, too), InvalidArgument, Conflict."""
        new = None if name is None else group_name(name)

        async def turn() -> Group:
            group = self._all.group(group_id)
            members = self._members(group, add, remove)
            unit = UnitOfWork()
            if new is not None and new != group.name:
                self._require_free(new)
                unit.update(tables.UserGroup, {"id": group_id}, {"name": new}, expect=1)
            _remove(unit, [(group_id, user) for user in remove])
            _add(unit, [(group_id, user) for user in add])
            await self._store.commit(unit)
            self._set(replace(group, name=new or group.name, members=members))
            return self._all.group(group_id)

        group = await self._queue.run(turn)
        changes = {"added": sorted(add), "removed": sorted(remove)}
        log.info("group changed", group=group_id, name=group.name, **changes, by=str(by))
        return group

    async def delete_group(self, group_id: int, *, by: Actor) -> None:
        """With the roles that it holds. Raises NotFound."""

        async def turn() -> None:
            self._all.group(group_id)
            unit = UnitOfWork()
            unit.delete(tables.RoleAssignment, {"group_id": group_id})
            unit.delete(tables.UserGroupMember, {"group_id": group_id})
            unit.delete(tables.UserGroup, {"id": group_id})
            await self._store.commit(unit)
            del self._all.groups[group_id]
            self._forget(one for one in self._all.assignments if one.group_id == group_id)

        await self._queue.run(turn)
        log.info("group deleted", group=group_id, by=str(by))

    async def change_memberships(
        self, *, add: Sequence[Membership], remove: Sequence[Membership], by: Actor
    ) -> None:
        """Of several groups; who is a member already, or is none, stays so. Raises NotFound for a group."""

        async def turn() -> None:
            groups = {id_: self._all.group(id_) for id_, _ in (*add, *remove)}
            new = [(id_, u) for id_, u in dict.fromkeys(add) if u not in groups[id_].members]
            old = [(id_, u) for id_, u in dict.fromkeys(remove) if u in groups[id_].members]
            unit = UnitOfWork()
            _remove(unit, old)
            _add(unit, new)
            await self._store.commit(unit)
            for id_, group in groups.items():
                joined = {user for one, user in new if one == id_}
                left = {user for one, user in old if one == id_}
                self._set(replace(group, members=(group.members - left) | joined))

        await self._queue.run(turn)
        log.info("group members changed", added=list(add), removed=list(remove), by=str(by))

    # Roles

    async def assign(self, new: Sequence[Assignment], *, by: Actor) -> None:
        """All or none, to users and workspaces that there are.

        Raises NotFound for a role or a group, InvalidArgument, Conflict for what is assigned already.
        """
        _require_some(new)
        for one in new:
            if self.role(one.grant.role_id).is_cluster_only and one.grant.workspace_id is not None:
                raise InvalidArgument(
                    "a global-only permission cannot be assigned to a local scope: role "
                    f"{self.role(one.grant.role_id).name} is of the cluster alone"
                )

        async def turn() -> None:
            for one in new:
                if one.group_id is not None:
                    self._all.group(one.group_id)
                if one in self._all.assignments:
                    raise Conflict(EXISTS)
            if len(set(new)) < len(new):
                raise Conflict(EXISTS)
            await self._insert(new)

        await self._queue.run(turn)
        log.info("roles assigned", assignments=[_said(one) for one in new], by=str(by))

    async def remove(self, old: Sequence[Assignment], *, by: Actor) -> None:
        """All or none. Raises NotFound for what is not assigned."""
        _require_some(old)

        async def turn() -> None:
            for one in old:
                if one not in self._all.assignments:
                    raise NotFound("role assignment", _said(one))
            unit = UnitOfWork()
            for one in set(old):
                unit.delete(tables.RoleAssignment, {"id": self._all.assignments[one]})
            await self._store.commit(unit)
            self._forget(set(old))

        await self._queue.run(turn)
        log.info("roles removed", assignments=[_said(one) for one in old], by=str(by))

    # Workspaces

    def of_creator(self, workspace_id: int, by: Actor) -> Assignment | None:
        """What whoever creates a workspace is to hold in it."""
        role = self.roles.get(self._creators_role or 0)
        if role is None or role.is_cluster_only:
            return None
        return Assignment(Grant(role.id, workspace_id), user_id=by.user_id)

    def insert_into(self, unit: UnitOfWork, one: Assignment) -> int:
        """Of a workspace that the same unit makes. The id of its row, for `register`."""
        id_ = self._store.next_id(tables.RoleAssignment)
        unit.insert(tables.RoleAssignment, _row(id_, one))
        return id_

    def register(self, one: Assignment, id_: int) -> None:
        """It has been committed."""
        self._all.assignments[one] = id_
        self._forget_access()

    def forget_workspace(self, workspace_id: int) -> None:
        """It has been deleted, and the rows of its roles with it."""
        self._forget(self._all.in_workspace(workspace_id))

    async def _insert(self, new: Sequence[Assignment]) -> None:
        unit = UnitOfWork()
        ids = {one: self._store.next_id(tables.RoleAssignment) for one in new}
        unit.insert(tables.RoleAssignment, *(_row(id_, one) for one, id_ in ids.items()))
        await self._store.commit(unit)
        self._all.assignments.update(ids)
        self._forget_access()

    def _set(self, group: Group) -> None:
        self._all.groups[group.id] = group
        self._forget_access()

    def _forget(self, old: Iterable[Assignment]) -> None:
        for one in list(old):
            self._all.assignments.pop(one, None)
        self._forget_access()

    def _forget_access(self) -> None:
        self._access.clear()
        self._changed()

    def _require_free(self, name: str) -> None:
        if any(group.name == name for group in self._all.groups.values()):
            raise Conflict(f"{EXISTS}: there is a group {name!r}")

    def _members(self, group: Group, add: Sequence[int], remove: Sequence[int]) -> frozenset[int]:
        _require_different(add)
        for user in add:
            if user in group.members:
                raise Conflict(f"{EXISTS}: user {user} is a member of group {group.name}")
        for user in remove:
            if user not in group.members:
                raise NotFound("member", user, f" in group {group.name}")
        return (group.members - set(remove)) | set(add)


def _require_different(members: Sequence[int]) -> None:
    if len(set(members)) < len(members):
        raise Conflict(f"{EXISTS}: addUsers names a user twice")


def _require_some(given: Sequence[Assignment]) -> None:
    if not given:
        raise InvalidArgument(
            "userRoleAssignments, groupRoleAssignments: give at least one assignment"
        )


def _add(unit: UnitOfWork, members: Sequence[Membership]) -> None:
    rows = ({"group_id": group, "user_id": user} for group, user in members)
    unit.insert(tables.UserGroupMember, *rows)


def _remove(unit: UnitOfWork, members: Sequence[Membership]) -> None:
    for group, user in members:
        unit.delete(tables.UserGroupMember, {"group_id": group, "user_id": user})


def _row(id_: int, one: Assignment) -> dict[str, object]:
    return {
        "id": id_,
        "role_id": int(one.grant.role_id),
        "workspace_id": one.grant.workspace_id,
        "user_id": one.user_id,
        "group_id": one.group_id,
    }


def _said(one: Assignment) -> str:
    holder = f"user {one.user_id}" if one.user_id is not None else f"group {one.group_id}"
    place = one.grant.workspace_id
    where = "the cluster" if place is None else f"workspace {place}"
    return f"role {int(one.grant.role_id)} of {holder} in {where}"
