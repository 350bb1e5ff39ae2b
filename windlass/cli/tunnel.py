"""`det tunnel`: one service of a task, by standard input and output or a port of this machine."""

from __future__ import annotations

import typer

from windlass.base.errors import Unauthenticated
from windlass.cli.connect import client_for, session_for
from windlass.cli.output.text import notice
from windlass.sdk.tunnel import run_pipe, run_tunnels


def carry(ctx: typer.Context, service: str, listener: int | None, *, auth: bool) -> None:
    session = client_for(ctx).session if auth else session_for(ctx)
    with session:
        if listener is not None:
            run_tunnels(session, {listener: service}, notice)
            return
        try:
            run_pipe(session, service)
        except Unauthenticated as refused:
            hint = "" if auth else f". {service} is no shell: use --auth"
            raise Unauthenticated(f"{refused.message}{hint}") from None
