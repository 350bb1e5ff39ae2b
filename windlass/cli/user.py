"""`det user`: logging in and out."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from windlass.base.errors import Unauthenticated
from windlass.cli.connect import ask_password, client_for, settings_of
from windlass.cli.groups import AliasedGroup
from windlass.cli.output import JsonOption, notice, print_json
from windlass.sdk.client import Client
from windlass.sdk.credentials import DEFAULT_USER, TokenCache, master_url, open_session

app = typer.Typer(
    cls=AliasedGroup, no_args_is_help=True, add_completion=False, help="Log in and out."
)


@app.command()
def login(
    ctx: typer.Context,
    username: Annotated[str | None, typer.Argument(help="Default: determined.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
) -> None:
    """Log in and remember it for this master. The password comes from the keyboard, DET_PASS or --password-stdin."""
    settings = settings_of(ctx)
    name = username or settings.user or os.environ.get("DET_USER") or DEFAULT_USER
    url = master_url(settings.master, os.environ)
    with open_session(url, os.environ) as session:
        token = session.login(name, _password(name, url, password_stdin))
        TokenCache().remember(session.url, name, token)
    notice(f"logged in as {name} at {url}")


@app.command()
def logout(ctx: typer.Context) -> None:
    """End the session and forget its token."""
    settings = settings_of(ctx)
    cache = TokenCache()
    url = master_url(settings.master, os.environ)
    name = settings.user or cache.active_user(url)
    token = cache.token(url, name) if name else None
    if not name or not token:
        notice(f"not logged in at {url}")
        return
    cache.forget(url, name)
    with open_session(url, os.environ, token) as session:
        try:
            Client(session).logout()
        except Unauthenticated:
            notice("the session had ended already")
    notice(f"logged out {name} at {url}")


@app.command()
def whoami(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Who this client is at the master."""
    client = client_for(ctx)
    user = client.me()
    if as_json:
        print_json(user)
    else:
        role = " (administrator)" if user.get("admin") else ""
        typer.echo(f"{user.get('username')}{role} at {client.session.url}")


def _password(name: str, url: str, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if "DET_PASS" in os.environ and os.environ.get("DET_USER") in (None, name):
        return os.environ["DET_PASS"]
    if sys.stdin.isatty():
        return ask_password(f"Password for {name} at {url}")
    return ""
