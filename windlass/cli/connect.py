"""From the global options to a logged-in client."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from windlass.base.errors import PermissionDenied
from windlass.sdk.client import Client

if TYPE_CHECKING:
    from windlass.sdk.credentials import AskTrust
    from windlass.sdk.session import Session


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    master: str | None
    user: str | None


def settings_of(ctx: typer.Context) -> Settings:
    given = ctx.find_root().params
    return Settings(given.get("master"), given.get("user"))


def client_for(ctx: typer.Context) -> Client:
    """A client as the options and the environment say. Asks for a password if there is somebody to ask."""
    from windlass.sdk.credentials import connect

    settings = settings_of(ctx)
    session = connect(
        settings.master,
        settings.user,
        ask_password=ask_password if _is_interactive() else None,
        ask_trust=ask_trust(),
    )
    ctx.call_on_close(session.close)
    return Client(session)


def session_for(ctx: typer.Context, token: str | None = None) -> Session:
    """One that has not logged in."""
    from windlass.sdk.credentials import master_url, open_session

    url = master_url(settings_of(ctx).master, os.environ)
    return open_session(url, os.environ, token, ask_trust=ask_trust())


def ask_trust() -> AskTrust | None:
    """None: there is nobody to ask."""
    return (lambda text: typer.confirm(text, err=True)) if _is_interactive() else None


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


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
