"""`det user-group`: groups of users, to which roles are given."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.cluster.user import USERS
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_json
from windlass.cli.places import YesOption
from windlass.sdk.client import Client

app = command_group()

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
Usernames = Annotated[
    str, typer.Argument(metavar="USER,...", help="Names of users, separated by commas.")
]
_TABLE = Table(
    Column("Name", lambda one: one["group"]["name"]),
    Column("Members", "numMembers"),
    Column("Id", lambda one: one["group"]["groupId"]),
)


@app.command("list")
@with_groups
def list_groups(
    ctx: typer.Context,
    *,
    groups_user_belongs_to: Annotated[
        str | None, typer.Option(metavar="USER", help="List only groups of this user.")
    ] = None,
    out: TableOptions,
) -> None:
    """List the groups that you may see."""
    client = client_for(ctx)
    user = groups_user_belongs_to
    user_id = None if user is None else int(client.user(user)["id"])
    out.show(_TABLE, client.groups().listed(user_id=user_id))


@app.command()
def describe(ctx: typer.Context, group: GroupName, as_json: JsonOption = False) -> None:
    """Show the members of a group."""
    calls = client_for(ctx).groups()
    found = calls.get(calls.named(group))
    print_json(found) if as_json else USERS.print(found["users"])


@app.command()
def create(
    ctx: typer.Context,
    group: GroupName,
    add_user: Annotated[
        list[str] | None, typer.Option(metavar="USER", help="Add this user. Repeatable.")
    ] = None,
) -> None:
    """Create a group. For administrators."""
    client = client_for(ctx)
    with for_administrators():
        client.groups().create(group, _ids(client, add_user or []))
    notice(f"Created group {group}")


@app.command("add-user")
def add_user(ctx: typer.Context, group: GroupName, usernames: Usernames) -> None:
    """Add users to a group. For administrators."""
    client = client_for(ctx)
    calls, names = client.groups(), usernames.split(",")
    with for_administrators():
        calls.edit(calls.named(group), add=_ids(client, names))
    notice(f"Added {', '.join(names)} to group {group}")


@app.command("remove-user")
def remove_user(ctx: typer.Context, group: GroupName, usernames: Usernames) -> None:
    """Remove users from a group. For administrators."""
    client = client_for(ctx)
    calls, names = client.groups(), usernames.split(",")
    with for_administrators():
        calls.edit(calls.named(group), remove=_ids(client, names))
    notice(f"Removed {', '.join(names)} from group {group}")


@app.command("change-name")
def change_name(
    ctx: typer.Context,
    group: GroupName,
    new_name: Annotated[str, typer.Argument(help="New name.")],
) -> None:
    """Rename a group. For administrators."""
    calls = client_for(ctx).groups()
    with for_administrators():
        calls.edit(calls.named(group), name=new_name)
    notice(f"Renamed group {group} to {new_name}")


@app.command()
def delete(ctx: typer.Context, group: GroupName, yes: YesOption = False) -> None:
    """Delete a group with the roles that it holds. For administrators."""
    calls = client_for(ctx).groups()
    id_ = calls.named(group)
    if not yes:
        members = len(calls.get(id_)["users"])
        typer.confirm(f"Delete group {group} with {members} members and its roles?", abort=True)
    with for_administrators():
        calls.delete(id_)
    notice(f"Deleted group {group}")


def _ids(client: Client, names: list[str]) -> list[int]:
    """Raises NotFound."""
    return [int(client.user(name.strip())["id"]) for name in names]
