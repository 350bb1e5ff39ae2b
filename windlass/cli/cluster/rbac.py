"""`det rbac`: roles, and who holds them where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_json
from windlass.cli.places import workspace_of
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

app = command_group()

RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="Name of the role.")]
UserOption = Annotated[
    str | None, typer.Option("-u", "--username-to-assign", metavar="USER", help="To this user.")
]
GroupOption = Annotated[
    str | None, typer.Option("-g", "--group-name-to-assign", metavar="GROUP", help="To this group.")
]
WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "-w",
        "--workspace-name",
        metavar="WORKSPACE",
        help="Only in this workspace. Default: in the cluster.",
    ),
]
_CLUSTER = "(cluster)"
_ROLES = Table(
    Column("Role", "name"),
    Column("In workspaces", lambda role: "yes" if role["scopeTypeMask"]["workspace"] else "no"),
    Column("Permissions", lambda role: len(role["permissions"])),
    Column("Id", "roleId"),
)
_HELD = Table(Column("Role", "role"), Column("In", "where"), Column("Through", "holder"))


@app.command("list-roles")
@with_groups
def list_roles(
    ctx: typer.Context,
    *,
    exclude_global_roles: Annotated[
        bool,
        typer.Option("--exclude-global-roles", help="Leave out roles for the whole cluster alone."),
    ] = False,
    out: TableOptions,
) -> None:
    """List the roles that you may see."""
    roles = client_for(ctx).roles().listed()
    if exclude_global_roles:
        roles = [role for role in roles if role["scopeTypeMask"]["workspace"]]
    out.show(_ROLES, roles)


@app.command("describe-role")
def describe_role(ctx: typer.Context, role: RoleName, as_json: JsonOption = False) -> None:
    """Show the permissions of a role, and who holds it."""
    client = client_for(ctx)
    found = client.roles().with_assignments(int(client.roles().named(role)["roleId"]))
    if as_json:
        print_json(found)
        return
    for permission in found["role"]["permissions"]:
        typer.echo(f"{permission['id'].removeprefix('PERMISSION_TYPE_')}: {permission['name']}")
    _HELD.print(_held(client, [found], own=""))


@app.command("my-permissions")
def my_permissions(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show the roles that you hold, and where."""
    client = client_for(ctx)
    found = client.roles().own()
    if as_json:
        print_json(found)
        return
    _HELD.print(_summarised(client, found, holder=""))


@app.command("list-users-roles")
def list_users_roles(
    ctx: typer.Context,
    username: Annotated[str, typer.Argument(help="Name of the user.")],
    as_json: JsonOption = False,
) -> None:
    """Show the roles of a user, and of the user's groups."""
    client = client_for(ctx)
    found = client.roles().of_user(int(client.user(username)["id"]))
    print_json(found) if as_json else _HELD.print(_held(client, found, own=username))


@app.command("list-groups-roles")
def list_groups_roles(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(help="Name of the group.")],
    as_json: JsonOption = False,
) -> None:
    """Show the roles of a group."""
    client = client_for(ctx)
    found = client.roles().of_group(client.groups().named(group))
    print_json(found) if as_json else _HELD.print(_summarised(client, found, holder=group))


@app.command("assign-role")
def assign_role(
    ctx: typer.Context,
    role: RoleName,
    user: UserOption = None,
    group: GroupOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Give a role to a user or a group."""
    client = client_for(ctx)
    client.roles().assign(**_asked(client, role, user, group, workspace))
    notice(f"Assigned {role} to {user or group} in {workspace or 'the cluster'}")


@app.command("unassign-role")
def unassign_role(
    ctx: typer.Context,
    role: RoleName,
    user: UserOption = None,
    group: GroupOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Take a role from a user or a group."""
    client = client_for(ctx)
    client.roles().unassign(**_asked(client, role, user, group, workspace))
    notice(f"Took {role} from {user or group} in {workspace or 'the cluster'}")


def _asked(
    client: Client, role: str, user: str | None, group: str | None, workspace: str | None
) -> dict[str, Any]:
    """Raises NotFound, InvalidArgument."""
    if (user is None) == (group is None):
        raise InvalidArgument("Give either --username-to-assign or --group-name-to-assign")
    return {
        "role_id": int(client.roles().named(role)["roleId"]),
        "user_id": int(client.user(user)["id"]) if user is not None else None,
        "group_id": client.groups().named(group) if group is not None else None,
        "workspace_id": int(workspace_of(client, workspace)["id"]) if workspace else None,
    }


def _held(client: Client, roles: Iterable[Json], *, own: str) -> list[Json]:
    """One row for each assignment. `own`: whose they are; empty: anybody's, who is named."""
    names, groups, users = _workspaces(client), _groups(client), {}
    if not own:
        users = {int(user["id"]): str(user["username"]) for user in client.users()}
    return [
        {
            "role": one["role"]["name"],
            "where": _where(given["roleAssignment"]["scopeWorkspaceId"], names),
            "holder": f"group {groups.get(given['groupId'], given['groupId'])}"
            if "groupId" in given
            else own or f"user {users.get(given['userId'], given['userId'])}",
        }
        for one in roles
        for given in (*one["userRoleAssignments"], *one["groupRoleAssignments"])
    ]


def _summarised(client: Client, found: Json, *, holder: str) -> list[Json]:
    names = _workspaces(client)
    return [
        {"role": role["name"], "where": _where(where, names), "holder": holder}
        for role, held in zip(found["roles"], found["assignments"], strict=True)
        for where in ([None] if held["scopeCluster"] else []) + held["scopeWorkspaceIds"]
    ]


def _workspaces(client: Client) -> Mapping[int, str]:
    return {int(one["id"]): str(one["name"]) for one in client.workspace_calls().listed()}


def _groups(client: Client) -> Mapping[int, str]:
    found = (one["group"] for one in client.groups().listed())
    return {int(one["groupId"]): str(one["name"]) for one in found}


def _where(workspace_id: int | None, names: Mapping[int, str]) -> str:
    return _CLUSTER if workspace_id is None else names.get(workspace_id, str(workspace_id))
