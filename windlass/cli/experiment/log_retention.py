"""`set log-retention` of experiments and trials."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.formats.plurals import counted
from windlass.cli.connect import client_for
from windlass.sdk.operation import Operation

DaysOption = Annotated[
    int | None, typer.Option("--days", min=0, max=32767, help="Days from its end; 0: at once.")
]
ForeverOption = Annotated[bool, typer.Option("--forever", help="Keep them for ever.")]


def set_retention(ctx: typer.Context, kind: str, id_: int, days: int | None, forever: bool) -> None:
    """`kind`: experiment or trial."""
    if (days is None) != forever:
        raise InvalidArgument("give either --days or --forever")
    kept = -1 if days is None else days
    Operation(client_for(ctx).session).retain_logs(f"{kind}s", id_, kept)
    shown = "for ever" if days is None else f"for {counted(days, 'day')}"
    typer.echo(f"Logs of {kind} {id_} are kept {shown}")
