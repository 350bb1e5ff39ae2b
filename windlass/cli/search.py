"""`det search`: anything by a part of its name, or by its id."""

from __future__ import annotations

import typer

from windlass.cli.connect import client_for
from windlass.cli.output.columns import Column, Table
from windlass.cli.output.text import notice, print_json

TABLE = Table(
    Column("Kind", "kind"), Column("ID", "id"), Column("Name", "name"), Column("Where", "detail")
)


def search(ctx: typer.Context, text: str, limit: int, *, as_json: bool, as_csv: bool) -> None:
    answer = client_for(ctx).search(text, limit)
    if as_json:
        print_json(answer["found"])
    else:
        TABLE.print(answer["found"], as_csv=as_csv)
    if answer["more"]:
        notice(f"There are more than these {limit}: give more of the name, or a larger --limit")
