"""`det resources`: accounting exports, as CSV."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Annotated

import typer

from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.sdk.operation import Operation

app = command_group()

After = Annotated[str, typer.Argument(help="Begin of the time: 2026-01-31T00:00:00Z.")]
Before = Annotated[str, typer.Argument(help="End of the time.")]


@app.command()
def allocations(ctx: typer.Context, timestamp_after: After, timestamp_before: Before) -> None:
    """Print every allocation that ran within a time, with its slot hours."""
    operation = Operation(client_for(ctx).session)
    _print(operation.allocations("allocations-csv", timestamp_after, timestamp_before))


@app.command()
def raw(ctx: typer.Context, timestamp_after: After, timestamp_before: Before) -> None:
    """Print what experiments ran within a time."""
    operation = Operation(client_for(ctx).session)
    _print(operation.allocations("raw", timestamp_after, timestamp_before))


@app.command()
def aggregated(
    ctx: typer.Context,
    start_date: Annotated[str, typer.Argument(help="First day: 2026-01-31.")],
    end_date: Annotated[str, typer.Argument(help="Last day, included.")],
    monthly: Annotated[bool, typer.Option("--monthly", help="By month, not by day.")] = False,
) -> None:
    """Print slot seconds by user, label and resource pool, and all together."""
    operation = Operation(client_for(ctx).session)
    _print(operation.sums(start_date, end_date, monthly=monthly))


def _print(content: AbstractContextManager[Iterator[bytes]]) -> None:
    with content as pieces:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
