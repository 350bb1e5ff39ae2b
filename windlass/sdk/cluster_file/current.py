"""What the master has of what a file says, by its REST API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from windlass.base.errors import NotFound
from windlass.sdk.cluster_file.model import AgentUser, ClusterFile, Policies
from windlass.sdk.cluster_file.state import (
    Assignment,
    ClusterState,
    Holder,
    ProjectState,
    TemplateState,
    UserState,
    Workload,
    WorkspaceState,
)
from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.client import Client

WORKLOADS: Mapping[Workload, str] = {"experiment": "EXPERIMENT", "tasks": "NTSC"}
"""On the wire."""


@dataclass(frozen=True, slots=True)
class Ids:
    """By names, as the master spells them. Grows with what is made."""

    users: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    workspaces: dict[str, int] = field(default_factory=dict)
    projects: dict[tuple[str, str], int] = field(default_factory=dict)
    """By workspace and name."""
    roles: dict[str, int] = field(default_factory=dict)


def read_state(client: Client, file: ClusterFile) -> tuple[ClusterState, Ids]:
    """Only as much as the file is about. Raises PermissionDenied."""
    users, workspaces = client.users(), client.workspaces()
    groups = [one["group"] for one in client.groups().listed()]
    ids = Ids(
        users={str(one["username"]): int(one["id"]) for one in users},
        groups={str(one["name"]): int(one["groupId"]) for one in groups},
        workspaces={str(one["name"]): int(one["id"]) for one in workspaces},
    )
    roles = _roles(client, file)
    ids.roles.update({str(one["name"]): int(one["roleId"]) for one in roles})
    state = ClusterState(
        users={str(one["username"]): _user(one) for one in users},
        groups={name: _members(client, ids, name, file) for name in ids.groups},
        workspaces={
            str(one["name"]): WorkspaceState(
                _agent_user(one.get("agentUserGroup")),
                _projects(client, ids, one, file),
                default_compute_pool=str(one.get("defaultComputePool") or ""),
                default_aux_pool=str(one.get("defaultAuxPool") or ""),
                checkpoint_storage=one.get("checkpointStorageConfig") or None,
            )
            for one in workspaces
        },
        roles={str(one["name"]): bool(one["scopeTypeMask"]["workspace"]) for one in roles},
        assignments=frozenset(_assignments(client, ids)),
        pools=_pools(client, ids, file),
        templates=dict(_templates(client, ids, file)),
        policies=dict(_policies(client, ids, file)),
    )
    return state, ids


def agent_user_on_the_wire(who: AgentUser) -> Json:
    return {
        "agentUser": who.user,
        "agentUid": who.uid,
        "agentGroup": who.group,
        "agentGid": who.gid,
    }


def _user(one: Json) -> UserState:
    return UserState(
        display_name=str(one.get("displayName") or ""),
        admin=bool(one["admin"]),
        active=bool(one["active"]),
        remote=bool(one.get("remote")),
        agent_user=_agent_user(one.get("agentUserGroup")),
    )


def _agent_user(link: Json | None) -> AgentUser | None:
    """One with only some of its fields is like none that a file can say."""
    if not link:
        return None
    return AgentUser.model_construct(
        user=link.get("agentUser"),
        uid=link.get("agentUid"),
        group=link.get("agentGroup"),
        gid=link.get("agentGid"),
    )


def _members(client: Client, ids: Ids, group: str, file: ClusterFile) -> frozenset[str]:
    if group not in file.groups:
        return frozenset()
    return frozenset(
        str(one["username"]) for one in client.groups().get(ids.groups[group])["users"]
    )


def _named(name: str, known: Iterable[str]) -> bool:
    return name.lower() in (one.lower() for one in known)


def _projects(
    client: Client, ids: Ids, workspace: Json, file: ClusterFile
) -> dict[str, ProjectState]:
    where = str(workspace["name"])
    if not any(one.projects for name, one in file.workspaces.items() if _named(name, [where])):
        return {}
    found = client.projects().listed(int(workspace["id"]))
    ids.projects.update({(where, str(one["name"])): int(one["id"]) for one in found})
    return {
        str(one["name"]): ProjectState(str(one.get("description") or ""), one["key"])
        for one in found
    }


def _roles(client: Client, file: ClusterFile) -> list[Json]:
    has_roles = file.roles or any(
        "roles" in one.model_fields_set for one in file.workspaces.values()
    )
    return client.roles().listed() if has_roles else []


def _assignments(client: Client, ids: Ids) -> Iterator[Assignment]:
    if not ids.roles:
        return
    names = {id_: name for name, id_ in ids.workspaces.items()}
    users = {id_: Holder("user", name) for name, id_ in ids.users.items()}
    groups = {id_: Holder("group", name) for name, id_ in ids.groups.items()}
    for role in client.roles().assignments(list(ids.roles.values())):
        for given in (*role["userRoleAssignments"], *role["groupRoleAssignments"]):
            holder = users.get(given.get("userId")) or groups.get(given.get("groupId"))
            where = given["roleAssignment"]["scopeWorkspaceId"]
            if holder is not None and (where is None or where in names):
                yield Assignment(
                    str(role["role"]["name"]), holder, names[where] if where is not None else None
                )


def _pools(client: Client, ids: Ids, file: ClusterFile) -> dict[str, frozenset[str]]:
    named = any(
        one.default_compute_pool or one.default_aux_pool for one in file.workspaces.values()
    )
    if not file.resource_pools and not named:
        return {}
    names = {id_: name for name, id_ in ids.workspaces.items()}
    bindings = client.pool_bindings()
    pools = [str(one["name"]) for one in client.resource_pools()]
    return {
        pool: frozenset(names[id_] for id_ in bindings.listed(pool) if id_ in names)
        if pool in file.resource_pools
        else frozenset()
        for pool in pools
    }


def _templates(client: Client, ids: Ids, file: ClusterFile) -> Iterator[tuple[str, TemplateState]]:
    names = {id_: name for name, id_ in ids.workspaces.items()}
    for name in file.templates:
        try:
            found = client.templates().get(name)
        except NotFound:
            continue
        where = int(found["workspaceId"])
        yield name, TemplateState(names.get(where, str(where)), dict(found["config"]))


def _policies(
    client: Client, ids: Ids, file: ClusterFile
) -> Iterator[tuple[tuple[str | None, Workload], Json]]:
    scopes: list[tuple[str | None, Policies]] = [(None, file.config_policies)]
    scopes += [
        (known, one.config_policies)
        for name, one in file.workspaces.items()
        for known in ids.workspaces
        if known.lower() == name.lower()
    ]
    for where, policies in scopes:
        for workload, on_the_wire in WORKLOADS.items():
            if workload in policies.model_fields_set:
                id_ = ids.workspaces[where] if where is not None else None
                yield (where, workload), client.config_policies().get(on_the_wire, id_)
