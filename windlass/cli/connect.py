"""From the global options to a logged-in client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from windlass.base.errors import PermissionDenied
from windlass.cli.main import Settings
from windlass.sdk.client import Client
from windlass.sdk.credentials import connect


def settings_of(ctx: typer.Context) -> Settings:
    return ctx.find_object(Settings) or Settings()


def client_for(ctx: typer.Context) -> Client:
    """A client as the options and the environment say. Asks for a password if there is somebody to ask."""
    settings = settings_of(ctx)
    interactive = sys.stdin.isatty() and sys.stderr.isatty()
    session = connect(
        settings.master, settings.user, ask_password=ask_password if interactive else None
    )
    ctx.call_on_close(session.close)
    return Client(session)


@contextmanager
def for_administrators() -> Iterator[None]:
    """Adds to a refusal that only administrators may do this, and how."""
    try:
        yield
    except PermissionDenied as denied:
        raise PermissionDenied(
            f"{denied.message}: only administrators may do this; run it as one: `det -u admin ...`"
        ) from None


def ask_password(prompt: str) -> str:
    return str(typer.prompt(prompt, hide_input=True, default="", show_default=False, err=True))
