"""`det user`: log in and out, list and create users, change passwords."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument, Unauthenticated
from windlass.base.option_groups import with_groups
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
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

app = command_group()

SHORTEST_PASSWORD = 8

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
def logout(ctx: typer.Context) -> None:
    """End the session and delete its token."""
    from windlass.sdk.credentials import TokenCache, master_url

    settings = settings_of(ctx)
    cache = TokenCache()
    url = master_url(settings.master, os.environ)
    name = settings.user or cache.active_user(url)
    token = cache.token(url, name) if name else None
    if not name or not token:
        notice(f"Not logged in at {url}")
        return
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
def list_users(ctx: typer.Context, out: TableOptions) -> None:
    """List the users of the cluster."""
    out.show(USERS, client_for(ctx).users(limit=out.limit))


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
        bool, typer.Option("--remote", help="Allow no password: the user signs on elsewhere.")
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
    client = client_for(ctx)
    user = client.user(username)
    with for_administrators():
        client.link_agent_user(int(user["id"]), link)


@app.command("change-password")
def change_password(
    ctx: typer.Context,
    target_user: Annotated[
        str | None, typer.Argument(help="User name. Default: yourself.", show_default=False)
    ] = None,
    password_stdin: PasswordStdinOption = False,
) -> None:
    """Change your password, or as an administrator that of another user. Other sessions end."""
    from windlass.sdk.credentials import TokenCache

    client = client_for(ctx)
    me = str(client.me()["username"])
    name = target_user or me
    user = client.user(name)
    password = _new_password(name, None, password_stdin)
    with for_administrators():
        client.change_password(int(user["id"]), password)
    notice(f"Changed the password of {name}")
    if name == me:
        cache = TokenCache()
        active = cache.active_user(client.session.url) in (None, me)
        cache.remember(client.session.url, me, client.session.login(me, password), active=active)


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
    if missing := _missing(password):
        raise InvalidArgument(f"The password needs {', '.join(missing)}")
    return password


def _missing(password: str) -> list[str]:
    """What the published client asks of passwords, too; the master sees only hashes."""
    rules = {
        f"at least {SHORTEST_PASSWORD} characters": len(password) >= SHORTEST_PASSWORD,
        "an upper-case letter": any(map(str.isupper, password)),
        "a lower-case letter": any(map(str.islower, password)),
        "a digit": any(map(str.isdigit, password)),
    }
    return [rule for rule, met in rules.items() if not met]


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
