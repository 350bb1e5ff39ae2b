"""`det fleet costs`: what the machines of elastic pools cost, and who caused it."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.fleet.machines import say_if_simulated
from windlass.cli.output.columns import Column, Table, TableOptions, decimals
from windlass.cli.output.text import print_fields, print_json, usd
from windlass.cli.output.times import local_time
from windlass.sdk.client import Client

UNUSED = "(nobody)"
"""Stands for machines that booted, were idle or were lost."""


class GroupBy(StrEnum):
    """What costs are summed up by."""

    POOL = "pool"
    USER = "user"
    PROJECT = "project"
    EXPERIMENT = "experiment"
    JOB = "job"
    INSTANCE = "instance"
    MONTH = "month"
    DAY = "day"


@with_groups
def costs(
    ctx: typer.Context,
    *,
    by: Annotated[
        GroupBy | None, typer.Option("--by", help="Sum up by this instead of showing the fleet.")
    ] = None,
    month: Annotated[
        str | None,
        typer.Option("--month", help="Of this month (2026-11, in UTC), or all. Default: this one."),
    ] = None,
    out: TableOptions,
) -> None:
    """Show what the fleet costs, beside a fleet of its peak size that is always on; or who caused it."""
    client = client_for(ctx)
    if by is None and month is None:
        _print_fleet(client, out)
        return
    found = client.fleet_costs((by or GroupBy.POOL).value, month)
    if out.as_json and not out.columns:
        print_json(found)
        return
    name = Column(found["by"].capitalize(), "name", lambda name: name or UNUSED)
    table = Table(name, *AMOUNTS)
    rows = table.sorted(found["rows"], out.sort) if out.sort else found["rows"]
    total = {**found["total"], "name": "total"}
    replace(out, sort="", limit=None).show(table, [*rows[: out.limit], total])


def _print_fleet(client: Client, out: TableOptions) -> None:
    fleet = client.fleet()
    if out.as_json:
        print_json({key: value for key, value in fleet.items() if key != "instances"})
        return
    spent, always_on = float(fleet["usd"]), float(fleet["alwaysOnUsd"])
    saved = f"{usd(always_on - spent)} ({1 - spent / always_on:.0%})" if always_on > 0 else None
    print_fields(
        [
            ("instances now", len(fleet["instances"])),
            ("cost per hour now", usd(fleet["usdPerHour"])),
            ("cost so far", usd(spent)),
            ("first launch", local_time(fleet.get("firstLaunchAt"))),
            ("most instances at once", fleet["peakInstances"]),
            ("always-on cost per hour", usd(fleet["peakUsdPerHour"])),
            ("always-on cost since then", usd(always_on)),
            ("saved", saved),
        ]
    )
    say_if_simulated(fleet["instances"])


def _amount(name: str, key: str) -> Column:
    return Column(name, lambda row: row.get(key, 0.0), decimals(4))


AMOUNTS = (
    _amount("USD", "usd"),
    _amount("Busy", "busyUsd"),
    _amount("Boot", "bootUsd"),
    _amount("Idle", "idleUsd"),
    _amount("Lost", "lostUsd"),
    _amount("Stopped", "stoppedUsd"),  # masters of 0.1 stop no machines
    Column("Machine hours", "machineHours", decimals(2)),
)
