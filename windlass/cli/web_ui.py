"""`det web`: the pages, in a browser that is logged in as the caller is.

A one-time code logs it in. The browser is started with a file that only its user may read and that leads to the master:
what stands in a command line, other users of the machine can read.
"""

from __future__ import annotations

import getpass
import html
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

import typer
from platformdirs import user_cache_path

from windlass.base.network import is_loopback
from windlass.base.ssh_forward import ssh_line
from windlass.cli.connect import client_for
from windlass.cli.interactive.web import has_browser
from windlass.cli.output.text import notice

HOME = "dashboard"


def show_pages(ctx: typer.Context, page: str, *, no_browser: bool) -> None:
    """Print the address, and open it where there is a browser."""
    session = client_for(ctx).session
    code = str(session.post("/api/v1/windlass/login-codes", {})["code"])
    address = login_address(session.url, page, code)
    if line := forwarding(session.url, os.environ):
        notice(f"From your computer, first: {line}")
    notice("The address logs in once, within a minute:")
    typer.echo(address)
    if not no_browser and sys.stdout.isatty() and has_browser(os.environ, sys.platform):
        import webbrowser

        webbrowser.open(leading_file(address).as_uri())


def login_address(url: str, page: str, code: str) -> str:
    """`page`: `experiments/7`, with or without `/det/` before it."""
    path = page.lstrip("/").removeprefix("det/") or HOME
    return f"{url}/det/login?redirect={quote(f'/det/{path}', safe='')}#code={code}"


def forwarding(url: str, environ: Mapping[str, str]) -> str:
    """The line for the user's own computer, where this is a machine that they reached by SSH and the master listens on
    its loopback; else empty."""
    at = urlsplit(url)
    if not environ.get("SSH_CONNECTION") or not is_loopback(at.hostname or ""):
        return ""
    port = at.port or (443 if at.scheme == "https" else 80)
    user, host = getpass.getuser(), socket.getfqdn()
    return ssh_line(at.hostname or "", port, user=user, host=host, login="")


def leading_file(address: str) -> Path:
    """A page that goes on to the address, which its user alone may read."""
    path = user_cache_path("windlass") / "login.html"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">'
            f'<a href="{html.escape(address)}">Windlass</a>\n'
        )
    return path
