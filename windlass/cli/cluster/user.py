"""`det user`: log in and out, list, create and change users, their passwords and sessions."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.base.errors import InvalidArgument, Unauthenticated
from windlass.base.formats.plurals import counted
from windlass.base.option_groups import with_groups
from windlass.base.password_rules import missing_in_password
from windlass.cli.connect import (
    ask_password,
    client_for,
    for_administrators,
    session_for,
    settings_of,
)
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_json
from windlass.cli.output.times import local_time
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.credentials import TokenCache

app = command_group()
sessions = typer.Typer(no_args_is_help=True, help="Show and end logins.")
app.add_typer(sessions, name="session")


class Flag(StrEnum):
    TRUE = "true"
    FALSE = "false"


Target = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
Targets = Annotated[list[str], typer.Argument(metavar="USER...", help="Names of users.")]
PasswordStdinOption = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]


@app.command()
def login(
    ctx: typer.Context,
    username: Annotated[
        str | None, typer.Argument(help="User name. Default: determined.", show_default=False)
    ] = None,
    password_stdin: PasswordStdinOption = False,
) -> None:
    """Log in and store the token.

    The password is asked for on a terminal. Elsewhere it is DET_PASS, else a line of standard input; none is empty.
    """
    from windlass.sdk.credentials import DEFAULT_USER, TokenCache, master_url

    settings = settings_of(ctx)
    name = username or settings.user or os.environ.get("DET_USER") or DEFAULT_USER
    url = master_url(settings.master, os.environ)
    with session_for(ctx) as session:
        token = session.login(name, _password(name, url, password_stdin))
        TokenCache().remember(session.url, name, token)
    notice(f"Logged in as {name} at {url}")


@app.command()
def logout(
    ctx: typer.Context,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="All users that this client is logged in as.")
    ] = False,
) -> None:
    """End the session and delete its token. An access token stays valid: see `det token revoke`."""
    from windlass.sdk.credentials import TokenCache, master_url

    settings = settings_of(ctx)
    cache = TokenCache()
    url = master_url(settings.master, os.environ)
    active = settings.user or cache.active_user(url)
    names = cache.users(url) if everybody else [active] if active else []
    tokens = {name: token for name in names if (token := cache.token(url, name))}
    if not tokens:
        notice(f"Not logged in at {url}")
    for name, token in tokens.items():
        _log_out(ctx, cache, url, name, token)


def _log_out(ctx: typer.Context, cache: TokenCache, url: str, name: str, token: str) -> None:
    cache.forget(url, name)
    with session_for(ctx, token) as session:
        try:
            Client(session).logout()
        except Unauthenticated:
            notice("The session had already ended")
    notice(f"Logged out {name} at {url}")


@app.command()
def whoami(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show the user of this client."""
    client = client_for(ctx)
    user = client.me()
    if as_json:
        print_json(user)
    else:
        role = " (administrator)" if user.get("admin") else ""
        typer.echo(f"{user.get('username')}{role} at {client.session.url}")


@app.command("list")
@with_groups
def list_users(
    ctx: typer.Context,
    *,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="Show users who are not active, too.")
    ] = False,
    out: TableOptions,
) -> None:
    """List the active users of the cluster."""
    active = None if everybody else True
    out.show(USERS, client_for(ctx).users(active=active, limit=out.limit))


@app.command()
def create(
    ctx: typer.Context,
    username: Annotated[str, typer.Argument(help="Name of the new user.")],
    admin: Annotated[bool, typer.Option("--admin", help="Make the user an administrator.")] = False,
    password: Annotated[
        str | None,
        typer.Option(help="Set this password. It is visible in the shell's history."),
    ] = None,
    remote: Annotated[
        bool,
        typer.Option("--remote", help="Allow no password: the user logs in with access tokens."),
    ] = False,
    password_stdin: PasswordStdinOption = False,
) -> None:
    """Create a user. For administrators. Without --password it is asked for."""
    if remote and (password is not None or password_stdin):
        raise InvalidArgument("--remote cannot be used with a password")
    client = client_for(ctx)
    chosen = None if remote else _new_password(username, password, password_stdin)
    with for_administrators():
        client.create_user(username, password=chosen, admin=admin, remote=remote)
    notice(f"Created user {username}")


@app.command("link-with-agent-user")
def link_with_agent_user(
    ctx: typer.Context,
    username: Annotated[str, typer.Argument(help="User of the cluster.")],
    agent_uid: Annotated[int, typer.Option(help="Number of the user on the agents' machines.")],
    agent_user: Annotated[str, typer.Option(help="Name of that user, as `id` shows it.")],
    agent_gid: Annotated[int, typer.Option(help="Number of the group.")],
    agent_group: Annotated[str, typer.Option(help="Name of the group.")],
) -> None:
    """Run the user's tasks as this user of the agents' machines, from their next start on. For administrators."""
    link: Json = {
        "agentUid": agent_uid,
        "agentUser": agent_user,
        "agentGid": agent_gid,
        "agentGroup": agent_group,
    }
    _link(ctx, username, link)
    notice(
        f"Tasks of {username} run as {agent_user} ({agent_uid}), group {agent_group} ({agent_gid})"
    )


@app.command("unlink-agent-user")
def unlink_agent_user(
    ctx: typer.Context, username: Annotated[str, typer.Argument(help="User of the cluster.")]
) -> None:
    """Run the user's tasks as the cluster does by default. For administrators."""
    _link(ctx, username, {})
    notice(f"Tasks of {username} run as the cluster's default")


def _link(ctx: typer.Context, username: str, link: Json) -> None:
    _edit(ctx, username, {"agentUserGroup": link})


@app.command()
def edit(
    ctx: typer.Context,
    target_user: Target,
    *,
    display_name: Annotated[
        str | None,
        typer.Option(help='Show the user under this name; "" to end that.', show_default=False),
    ] = None,
    username: Annotated[
        str | None, typer.Option(help="Rename the user.", show_default=False)
    ] = None,
    active: Annotated[
        Flag | None,
        typer.Option(help="Let the user log in, or not.", show_default=False),
    ] = None,
    admin: Annotated[
        Flag | None,
        typer.Option(help="Make the user an administrator, or not.", show_default=False),
    ] = None,
    remote: Annotated[
        Flag | None,
        typer.Option(
            help="Accept no password of the user, but access tokens alone; or accept it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Change a user. All but your own display name is for administrators."""
    flags = {"active": active, "admin": admin, "remote": remote}
    given: Json = {"displayName": display_name, "username": username}
    changes: Json = {key: value for key, value in given.items() if value is not None}
    changes |= {key: flag is Flag.TRUE for key, flag in flags.items() if flag is not None}
    if not changes:
        raise InvalidArgument("Nothing to change: see `det user edit --help`")
    _edit(ctx, target_user, changes)
    notice(f"Changed user {target_user}")


@app.command()
def rename(
    ctx: typer.Context,
    target_user: Target,
    new_username: Annotated[str, typer.Argument(help="New user name.")],
) -> None:
    """Rename a user, who logs in under the new name from now on. For administrators."""
    renamed = _edit(ctx, target_user, {"username": new_username})
    notice(f"Renamed user {target_user} to {renamed['username']}")


@app.command()
def activate(ctx: typer.Context, usernames: Targets) -> None:
    """Let users log in again. For administrators."""
    _set_active(ctx, usernames, True)


@app.command()
def deactivate(ctx: typer.Context, usernames: Targets) -> None:
    """Let users log in no more. Their sessions and access tokens end, their work goes on. For administrators."""
    _set_active(ctx, usernames, False)


@sessions.command("list")
@with_groups
def list_sessions(
    ctx: typer.Context,
    target_user: Annotated[
        str | None, typer.Argument(help="User name. Default: yourself.", show_default=False)
    ] = None,
    *,
    out: TableOptions,
) -> None:
    """Show where a user is logged in. Those of others are for administrators."""
    client = client_for(ctx)
    user = client.user(target_user) if target_user else client.me()
    with for_administrators():
        found = client.user_calls().sessions(int(user["id"]))
    out.show(SESSIONS, found)


@sessions.command("revoke")
def revoke_sessions(
    ctx: typer.Context,
    session_ids: Annotated[
        list[int] | None,
        typer.Argument(metavar="[ID...]", help="Ids, as `list` shows them.", show_default=False),
    ] = None,
    all_of: Annotated[
        str | None,
        typer.Option(
            "--all-of",
            metavar="USER",
            help="All sessions of this user, but the one that this command uses.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """End logins: whoever uses one has to log in again."""
    if bool(session_ids) == (all_of is not None):
        raise InvalidArgument("Give ids of sessions, or --all-of")
    client = client_for(ctx)
    if all_of is not None:
        with for_administrators():
            number = client.user_calls().end_sessions(int(client.user(all_of)["id"]))
        notice(f"Ended {counted(number, 'session')} of {all_of}")
    for session_id in session_ids or ():
        client.user_calls().end_session(session_id)
        notice(f"Ended session {session_id}")


def _edit(ctx: typer.Context, username: str, changes: Json) -> Json:
    client = client_for(ctx)
    user = client.user(username)
    with for_administrators():
        return client.user_calls().edit(int(user["id"]), changes)


def _set_active(ctx: typer.Context, usernames: list[str], active: bool) -> None:
    client = client_for(ctx)
    ids = {int(client.user(name)["id"]): name for name in usernames}
    with for_administrators():
        results = client.user_calls().set_active(list(ids), active)
    for result in results:
        if not result["error"]:
            done = "Activated" if active else "Deactivated"
            notice(f"{done} user {ids[int(result['id'])]}")
    if errors := [f"{ids[int(one['id'])]}: {one['error']}" for one in results if one["error"]]:
        raise InvalidArgument("; ".join(errors))


@app.command("change-password")
def change_password(
    ctx: typer.Context,
    target_user: Annotated[
        str | None, typer.Argument(help="User name. Default: yourself.", show_default=False)
    ] = None,
    password_stdin: PasswordStdinOption = False,
) -> None:
    """Change your password, or as an administrator that of another user. Other sessions end."""
    client = client_for(ctx)
    name = target_user or str(client.me()["username"])
    user = client.user(name)
    password = _new_password(name, None, password_stdin)
    with for_administrators():
        client.user_calls().set_password(int(user["id"]), password)
    notice(f"Changed the password of {name}")


def _password(name: str, url: str, from_stdin: bool) -> str:
    if from_stdin:
        return _line()
    if "DET_PASS" in os.environ and os.environ.get("DET_USER") in (None, name):
        return os.environ["DET_PASS"]
    if sys.stdin.isatty():
        return ask_password(f"Password for {name} at {url}")
    return _line()


def _new_password(name: str, given: str | None, from_stdin: bool) -> str:
    """One that is good enough. Raises InvalidArgument."""
    if given is not None:
        password = given
    elif from_stdin:
        password = _line()
    elif sys.stdin.isatty():
        password = ask_password(f"New password for {name}")
        if ask_password("The same again") != password:
            raise InvalidArgument("The passwords do not match")
    else:
        raise InvalidArgument("No password given: use --password-stdin")
    if missing := missing_in_password(password):
        raise InvalidArgument(f"The password needs {', '.join(missing)}")
    return password


def _line() -> str:
    return sys.stdin.readline().rstrip("\r\n")


def _yes(flag: object) -> str:
    return "yes" if flag else "no"


def _agent_user(link: Json | None) -> str:
    if not link:
        return ""
    return f"{link['agentUser']}:{link['agentGroup']} ({link['agentUid']}:{link['agentGid']})"


USERS = Table(
    Column("User", "username"),
    Column("Name", "displayName"),
    Column("Active", "active", _yes),
    Column("Admin", "admin", _yes),
    Column("Remote", "remote", _yes),
    Column("Tasks run as", "agentUserGroup", _agent_user),
)
SESSIONS = Table(
    Column("ID", "id"),
    Column("Logged in", "createdAt", local_time),
    Column("Last used", "lastUsedAt", local_time),
    Column("Expires", "expiresAt", local_time),
    Column("From", "address"),
    Column("This one", "current", _yes),
)
