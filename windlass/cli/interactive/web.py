"""Tasks that are used in a browser: `start` and `open`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from windlass.base.errors import PermissionDenied
from windlass.cli.connect import client_for
from windlass.cli.interactive.kinds import CliKind, kind_of
from windlass.cli.interactive.verbs import TaskId
from windlass.cli.interactive.waiting import until_ready
from windlass.cli.output.text import notice
from windlass.sdk.client import Client

NoBrowserOption = Annotated[
    bool, typer.Option("--no-browser", help="Print the URL only, without opening a browser.")
]


def add_open(app: typer.Typer, kind: CliKind) -> None:
    """To the group of a kind."""
    app.command("open", help=f"Wait until a {kind.name} serves, print its URL and open it.")(_open)


def _open(ctx: typer.Context, task_id: TaskId, no_browser: NoBrowserOption = False) -> None:
    client, kind = client_for(ctx), kind_of(ctx)
    show(client, kind, kind.full_id(client, task_id), no_browser=no_browser)


def show(client: Client, kind: CliKind, task_id: str, *, no_browser: bool) -> None:
    """Wait until it serves, print its URL, and open it where there is a browser.

    Raises PermissionDenied for one that only others may open.
    """
    one = until_ready(client, kind, task_id)
    if kind.opens_by_token and "token=" not in str(one["serviceAddress"]):
        raise PermissionDenied(
            f"{kind.title} {task_id} is one of {one.get('username')}, who alone, beside administrators, may open it"
        )
    url = f"{client.session.url}{one['serviceAddress']}"
    notice(f"{kind.title} {task_id} is ready. Stop it: `det {kind.word} kill {task_id}`")
    typer.echo(url)
    if not no_browser and sys.stdout.isatty() and has_browser(os.environ, sys.platform):
        import webbrowser

        webbrowser.open(url)


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Whether there is one with a window of its own: those of text would take the terminal."""
    if platform in ("darwin", "win32"):
        return not environ.get("SSH_CONNECTION")
    return any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
