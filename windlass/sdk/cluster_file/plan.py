"""From a file and the state of a cluster to the steps that make the cluster as the file says. Pure.

What gives comes before what takes: whoever runs the steps keeps what the later ones need, and nobody is without rights
in between. A step needs only what an earlier one has made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from windlass.base.formats.documents import Place
from windlass.sdk.cluster_file.model import ClusterFile, Holders, Policies
from windlass.sdk.cluster_file.reading import Problem
from windlass.sdk.cluster_file.state import (
    Action,
    Assignment,
    Change,
    ClusterState,
    Holder,
    Kind,
    Step,
    Workload,
    WorkspaceState,
)
from windlass.sdk.wire import Json

FIRST_WORKSPACE = "Uncategorized"
ALL_RIGHTS = "ClusterAdmin"
_WORKLOADS: tuple[Workload, ...] = ("experiment", "tasks")


def plan(file: ClusterFile, cluster: ClusterState, *, set_passwords: bool = False) -> list[Step]:
    """In order; none: all is as the file says. `set_passwords`: also those of users that are there."""
    names = Names(file, cluster)
    members = list(_members(file, cluster, names))
    wanted, managed = _wanted_roles(file, names), _managed_roles(file, cluster, names)
    return [
        *_users(file, cluster, names, set_passwords),
        *(give for give, _ in members if give is not None),
        *_workspaces(file, cluster, names),
        *_projects(file, cluster, names),
        *_sorted(Action.CREATE, wanted - cluster.assignments),
        *_pools(file, cluster, names),
        *_given_to_work(file, cluster, names),
        *_templates(file, cluster, names),
        *_policies(file, cluster, names),
        *_sorted(Action.REMOVE, managed - wanted),
        *(take for _, take in members if take is not None),
        *_taken_from_users(file, cluster, names),
    ]


def problems(file: ClusterFile, cluster: ClusterState) -> list[Problem]:
    """What the file names and neither it nor the cluster has, and what no step can do."""
    return [
        *_unknown_people(file, cluster),
        *_wrong_roles(file, cluster),
        *_unknown_places(file, cluster),
    ]


class Names:
    """As the master spells them; those that it does not have as the file does."""

    def __init__(self, file: ClusterFile, cluster: ClusterState) -> None:
        self._users = {name.lower(): name for name in cluster.users}
        self._workspaces = _spelled([*cluster.workspaces, *file.workspaces])
        self._roles = _spelled(cluster.roles)

    def user(self, name: str) -> str:
        """Names of users have no capitals."""
        return self._users.get(name.lower(), name.lower())

    def workspace(self, name: str) -> str:
        return self._workspaces.get(name.lower(), name)

    def role(self, name: str) -> str:
        return self._roles.get(name.lower(), name)


def _spelled(names: Iterable[str]) -> dict[str, str]:
    """By their lower case; the first one wins."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(name.lower(), name)
    return found


_FIELDS = ("display_name", "admin", "active", "remote", "agent_user")
_TAKEN = ("admin", "active")
"""False takes something."""


def _users(
    file: ClusterFile, cluster: ClusterState, names: Names, set_passwords: bool
) -> Iterator[Step]:
    for written, user in file.users.items():
        name = names.user(written)
        found = cluster.users.get(name)
        changes = _changed(user.given(*_FIELDS), found)
        if found is not None:
            changes = [one for one in changes if not _takes(one)]
        if user.password is not None and (found is None or set_passwords):
            changes.append(Change("password", None, user.password))
        action = Action.CREATE if found is None else Action.CHANGE
        if found is None or changes:
            yield Step(action=action, kind=Kind.USER, name=name, changes=tuple(changes))


def _taken_from_users(file: ClusterFile, cluster: ClusterState, names: Names) -> Iterator[Step]:
    for written, user in file.users.items():
        name = names.user(written)
        if (found := cluster.users.get(name)) is None:
            continue
        changes = tuple(filter(_takes, _changed(user.given(*_FIELDS), found)))
        if changes:
            yield Step(action=Action.CHANGE, kind=Kind.USER, name=name, changes=changes)


def _takes(change: Change) -> bool:
    return change.field in _TAKEN and change.new is False


def _changed(given: Mapping[str, Any], found: object) -> list[Change]:
    """What is otherwise; all of it, where there is nothing yet."""
    old = {name: getattr(found, name, None) for name in given}
    return [
        Change(name, old[name], new)
        for name, new in given.items()
        if found is None or not _equal(old[name], new)
    ]


def _equal(old: Any, new: Any) -> bool:
    if isinstance(old, dict) or isinstance(new, dict):
        return _same(old or None, new or None)
    return bool(old == new)


def _members(
    file: ClusterFile, cluster: ClusterState, names: Names
) -> Iterator[tuple[Step | None, Step | None]]:
    """For each group what adds members, or makes it, and what removes some."""
    for name, group in file.groups.items():
        wanted = frozenset(map(names.user, group.members))
        found = cluster.groups.get(name)
        if found is None:
            change = Change("members", (), tuple(sorted(wanted)))
            changes = (change,) if wanted else ()
            yield Step(action=Action.CREATE, kind=Kind.GROUP, name=name, changes=changes), None
        elif "members" in group.model_fields_set:
            yield (
                _membership(name, found, found | wanted),
                _membership(name, found | wanted, wanted),
            )


def _membership(name: str, old: frozenset[str], new: frozenset[str]) -> Step | None:
    if old == new:
        return None
    change = Change("members", tuple(sorted(old)), tuple(sorted(new)))
    return Step(action=Action.CHANGE, kind=Kind.GROUP, name=name, changes=(change,))


def _workspaces(file: ClusterFile, cluster: ClusterState, names: Names) -> Iterator[Step]:
    for written, workspace in file.workspaces.items():
        name = names.workspace(written)
        found = cluster.workspaces.get(name)
        given = workspace.given("agent_user")
        if found is None:
            given = {field: value for field, value in given.items() if value is not None}
        changes = tuple(_changed(given, found))
        if found is None or changes:
            action = Action.CREATE if found is None else Action.CHANGE
            yield Step(action=action, kind=Kind.WORKSPACE, name=name, changes=changes)


def _given_to_work(file: ClusterFile, cluster: ClusterState, names: Names) -> Iterator[Step]:
    """Which its pools must be bound for."""
    for written, workspace in file.workspaces.items():
        name = names.workspace(written)
        given = workspace.given("default_compute_pool", "default_aux_pool", "checkpoint_storage")
        changes = _changed(given, cluster.workspaces.get(name, WorkspaceState()))
        if changes:
            yield Step(action=Action.CHANGE, kind=Kind.WORKSPACE, name=name, changes=tuple(changes))


def _projects(file: ClusterFile, cluster: ClusterState, names: Names) -> Iterator[Step]:
    for written, workspace in file.workspaces.items():
        where = names.workspace(written)
        there = cluster.workspaces.get(where)
        known = there.projects if there is not None else {}
        spelled = _spelled(known)
        for name, project in workspace.projects.items():
            name = spelled.get(name.lower(), name)
            found = known.get(name)
            given = project.given("description", "key")
            given = {field: value for field, value in given.items() if value is not None}
            changes = tuple(_changed(given, found))
            if found is None or changes:
                action = Action.CREATE if found is None else Action.CHANGE
                yield Step(
                    action=action, kind=Kind.PROJECT, name=name, workspace=where, changes=changes
                )


def _wanted_roles(file: ClusterFile, names: Names) -> frozenset[Assignment]:
    scopes: list[tuple[str | None, Mapping[str, Holders]]] = [(None, file.roles)]
    scopes += [(names.workspace(name), one.roles) for name, one in file.workspaces.items()]
    return frozenset(
        Assignment(names.role(role), holder, where)
        for where, roles in scopes
        for role, holders in roles.items()
        for holder in _holders(holders, names)
    )


def _holders(holders: Holders, names: Names) -> Iterator[Holder]:
    yield from (Holder("user", names.user(name)) for name in holders.users)
    yield from (Holder("group", name) for name in holders.groups)


def _managed_roles(file: ClusterFile, cluster: ClusterState, names: Names) -> frozenset[Assignment]:
    """What is as written, or goes: in a workspace all roles, in the cluster those that are named."""
    roles = set(map(names.role, file.roles))
    workspaces = {
        names.workspace(name)
        for name, one in file.workspaces.items()
        if "roles" in one.model_fields_set
    }
    return frozenset(
        one
        for one in cluster.assignments
        if (one.role in roles if one.workspace is None else one.workspace in workspaces)
    )


def _sorted(action: Action, assignments: Iterable[Assignment]) -> list[Step]:
    ordered = sorted(assignments, key=lambda one: (one.workspace or "", one.role, one.holder))
    return [
        Step(
            action=action,
            kind=Kind.ROLE,
            name=one.role,
            workspace=one.workspace,
            holder=one.holder,
        )
        for one in ordered
    ]


def _pools(file: ClusterFile, cluster: ClusterState, names: Names) -> Iterator[Step]:
    for name, pool in file.resource_pools.items():
        wanted = frozenset(map(names.workspace, pool.workspaces))
        found = cluster.pools.get(name, frozenset())
        if wanted != found:
            change = Change("workspaces", tuple(sorted(found)), tuple(sorted(wanted)))
            yield Step(action=Action.CHANGE, kind=Kind.POOL, name=name, changes=(change,))


def _templates(file: ClusterFile, cluster: ClusterState, names: Names) -> Iterator[Step]:
    for name, template in file.templates.items():
        found = cluster.templates.get(name)
        if found is not None and _same(found.config, template.config):
            continue
        yield Step(
            action=Action.CREATE if found is None else Action.CHANGE,
            kind=Kind.TEMPLATE,
            name=name,
            workspace=names.workspace(template.workspace or FIRST_WORKSPACE)
            if found is None
            else found.workspace,
            changes=(Change("config", found.config if found else None, template.config),),
        )


def _policies(file: ClusterFile, cluster: ClusterState, names: Names) -> list[Step]:
    scopes: list[tuple[str | None, Policies]] = [(None, file.config_policies)]
    scopes += [
        (names.workspace(name), one.config_policies) for name, one in file.workspaces.items()
    ]
    steps = [
        step
        for where, policies in scopes
        for workload, new in policies.given(*_WORKLOADS).items()
        if (step := _policy(where, workload, cluster.policies, new)) is not None
    ]
    # A policy that goes may be in the way of one that comes.
    return sorted(steps, key=lambda step: step.action is not Action.REMOVE)


def _policy(
    where: str | None,
    workload: Any,
    known: Mapping[tuple[str | None, Workload], Json],
    new: Json | None,
) -> Step | None:
    old = known.get((where, workload)) or None
    new = new or None
    if _same(old, new):
        return None
    action = Action.REMOVE if new is None else Action.CREATE if old is None else Action.CHANGE
    change = Change("policy", old, new)
    return Step(action=action, kind=Kind.POLICY, name=workload, workspace=where, changes=(change,))


def _same(one: Json | None, other: Json | None) -> bool:
    """As JSON: `true` is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _unknown_people(file: ClusterFile, cluster: ClusterState) -> Iterator[Problem]:
    for name, user in file.users.items():
        known = name.lower() in {one.lower() for one in cluster.users}
        if not known and user.password is None and not user.remote:
            yield Problem(
                ("users", name),
                "a new user needs `password: {env: VARIABLE}`, `password: {file: PATH}` or `remote: true`",
            )
    for name, group in file.groups.items():
        yield from _unknown(
            ("groups", name, "members"), group.members, "user", _all_users(file, cluster)
        )


def _all_users(file: ClusterFile, cluster: ClusterState) -> set[str]:
    return {name.lower() for name in (*file.users, *cluster.users)}


def _wrong_roles(file: ClusterFile, cluster: ClusterState) -> Iterator[Problem]:
    yield from _wrong(("roles",), file.roles, file, cluster)
    for name, workspace in file.workspaces.items():
        yield from _wrong(("workspaces", name, "roles"), workspace.roles, file, cluster)


def _wrong(
    place: Place, roles: Mapping[str, Holders], file: ClusterFile, cluster: ClusterState
) -> Iterator[Problem]:
    spelled = _spelled(cluster.roles)
    groups = {*file.groups, *cluster.groups}
    for name, holders in roles.items():
        at = (*place, name)
        if name.lower() not in spelled:
            yield Problem(at, f"there is no such role: use {', '.join(cluster.roles)}")
        elif name.lower() == ALL_RIGHTS.lower() and not holders.users and not holders.groups:
            yield Problem(at, "somebody must hold this role: name users or groups")
        elif len(place) > 1 and not cluster.roles[spelled[name.lower()]]:
            yield Problem(
                at, "this role has permissions of the whole cluster: name it in `roles` at the top"
            )
        yield from _unknown((*at, "users"), holders.users, "user", _all_users(file, cluster))
        yield from _unknown((*at, "groups"), holders.groups, "group", groups, exact=True)


def _unknown_places(file: ClusterFile, cluster: ClusterState) -> Iterator[Problem]:
    workspaces = {name.lower() for name in (*file.workspaces, *cluster.workspaces)}
    for name, bound in file.resource_pools.items():
        if name not in cluster.pools:
            near = _nearest(name, cluster.pools)
            yield Problem(
                ("resource_pools", name),
                f"there is no such pool{near}: add it to master.yaml, or remove it here",
            )
        place = ("resource_pools", name, "workspaces")
        yield from _unknown(place, bound.workspaces, "workspace", workspaces)
    for name, workspace in file.workspaces.items():
        for key, pool in workspace.given("default_compute_pool", "default_aux_pool").items():
            if pool and pool not in cluster.pools:
                near = _nearest(pool, cluster.pools)
                yield Problem(
                    ("workspaces", name, key),
                    f'there is no resource pool "{pool}"{near}: name another one',
                )
    for name, template in file.templates.items():
        if (where := template.workspace) is None:
            continue
        place = ("templates", name, "workspace")
        found = cluster.templates.get(name)
        if where.lower() not in workspaces:
            yield Problem(place, f'there is no workspace "{where}": write it under workspaces, too')
        elif found is not None and found.workspace.lower() != where.lower():
            yield Problem(
                place,
                f'the template is in workspace "{found.workspace}", and stays there: write that one, '
                f"or remove the template first (det template remove {name})",
            )


def _unknown(
    place: Place, given: Iterable[str], kind: str, known: set[str], *, exact: bool = False
) -> Iterator[Problem]:
    for index, name in enumerate(given):
        if (name if exact else name.lower()) not in known:
            near = _nearest(name, known)
            yield Problem(
                (*place, index),
                f'there is no {kind} "{name}"{near}: write it under {kind}s, or remove it here',
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""
