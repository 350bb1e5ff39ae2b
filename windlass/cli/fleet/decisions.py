"""`det fleet decisions`: what was decided about machines, why, and which offers were weighed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.output.columns import Column, Table, TableOptions, decimals
from windlass.cli.output.text import notice, say
from windlass.cli.output.times import local_time
from windlass.sdk.wire import Json

NEWEST = 100
"""Shown unless somebody asks for more."""


class Kind(StrEnum):
    LAUNCHED = "launched"
    ENDED = "ended"
    MOVED = "moved"
    CANCELLED = "cancelled"
    REFUSED = "refused"


@with_groups
def decisions(
    ctx: typer.Context,
    out: TableOptions,
    pool: Annotated[str, typer.Option(help="Show only those about this pool.")] = "",
    kind: Annotated[Kind | None, typer.Option(help="Show only those of this kind.")] = None,
    machine: Annotated[str, typer.Option(help="Show only those about this machine.")] = "",
    job: Annotated[str, typer.Option(help="Show only those for runs of this job.")] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Show only those since then: 2026-11-28T21:00Z.")
    ] = "",
    weighed: Annotated[
        bool, typer.Option("--weighed", help="Show the offers that were weighed for each.")
    ] = False,
) -> None:
    """List what was decided about machines, and why; the newest first."""
    asked = {"pool": pool, "kind": kind, "machine": machine, "job": job, "since": since}
    found = client_for(ctx).fleet_decisions(
        {name: value for name, value in asked.items() if value}, out.limit or NEWEST
    )
    rows = found["decisions"]
    if weighed and not (out.as_json or out.as_csv):
        for each in rows:
            DECISIONS.print([each])
            if each["alternatives"]:
                WEIGHED.print(each["alternatives"])
            say("")
    else:
        out.show(DECISIONS, rows)
    total = found["pagination"]["total"]
    if len(rows) < total and not (out.as_json or out.as_csv):
        notice(f"The newest {len(rows)} of {total}: --limit shows more")


def _reason(each: Json) -> str:
    said = f": {each['said']}" if each["said"] else ""
    return f"{each['reason']}{said}"


def _kind(each: Json) -> str:
    return f"{each['kind']}, stands" if each["stands"] else str(each["kind"])


DECISIONS = Table(
    Column("Last", "lastAt", local_time),
    Column("First", "firstAt", local_time),
    Column("Times", "times"),
    Column("Pool", "pool"),
    Column("Decision", _kind),
    Column("Offer", "offer"),
    Column("Machines", "machines"),
    Column("USD/h", "usdPerHour", decimals(2, unknown="unknown")),
    Column("Runs", "runs"),
    Column("Instances", "instances", ", ".join),
    Column("Reason", _reason, below="was decided"),
    give_way=("Instances", "First", "USD/h", "Times", "Machines", "Pool"),
)
WEIGHED = Table(
    Column("Offer", "offer"),
    Column("Machines", "machines"),
    Column("USD/h", "usdPerHour", decimals(2, unknown="unknown")),
    Column("USD/h of work", "usdPerWorkHour", decimals(2, unknown="unknown")),
    Column("Launched", "launched"),
    Column("Why not", "whyNot"),
)
