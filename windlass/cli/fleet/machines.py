"""`det fleet list` and `describe`: the machines that exist now, and why each was launched or is ending."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.find import find
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions, decimals
from windlass.cli.output.text import notice, print_fields, print_json, usd
from windlass.cli.output.times import UtcOption, local_time
from windlass.sdk.wire import Json

SIMULATED = "local"
"""The region of embedded pools, whose prices are invented."""


@with_groups
def list_instances(ctx: typer.Context, out: TableOptions) -> None:
    """List the machines that exist now, and why each was launched or is ending."""
    fleet = client_for(ctx).fleet()
    out.show(MACHINES, fleet["instances"])
    if out.as_json:
        return
    for blocked in fleet.get("blockedOffers") or []:
        type_ = blocked["offer"]["instanceType"]
        until = f" until {local_time(blocked['until'])}" if blocked["until"] else ""
        notice(f"No {type_}{until}: {blocked['reason']}")
    say_if_simulated(fleet["instances"][: out.limit])


def describe(
    ctx: typer.Context,
    instance: Annotated[
        str, typer.Argument(help="Its id, as `list` shows it, or its first characters.")
    ],
    as_json: JsonOption = False,
    utc: UtcOption = False,
) -> None:
    """Show one machine: what it is, its life so far, what it costs, what runs on it, why it ends."""
    client = client_for(ctx)
    fleet = {each["id"]: each for each in client.fleet()["instances"]}
    found = fleet[find("instance", instance, fleet)]
    agents = [agent for agent in client.agents() if agent["id"] == found["id"]]
    runs = {each["parent"] for agent in agents for each in agent["containers"].values()}
    uses = (
        [each for each in client.live_allocations() if each["allocationId"] in runs] if runs else []
    )
    if as_json:
        print_json({**found, "allocations": uses})
        return
    offer = found["offer"]
    place = (offer["provider"], offer["region"], offer["zone"], offer["instanceType"])
    idle = found["idleS"]
    print_fields(
        [
            ("instance", found["id"]),
            ("pool", found["pool"]),
            ("offer", "/".join(part for part in (*place, offer["market"]) if part)),
            ("slots", found["slots"]),
            ("state", found["activity"]),
            ("launched", local_time(found["createdAt"])),
            ("ready", local_time(found["readyAt"])),
            ("age", length(found["ageS"])),
            ("idle for", None if idle is None else length(idle)),
            ("cost per hour", usd(found["usdPerHour"])),
            ("cost so far", usd(found["usd"])),
            ("runs", ", ".join(each["name"] for each in uses)),
            ("reason", _reason(found)),
        ]
    )
    say_if_simulated([found])


def length(seconds: float) -> str:
    from windlass.base.formats.durations import format_duration

    return format_duration(timedelta(seconds=round(seconds)))


def say_if_simulated(instances: Sequence[Json]) -> None:
    if any(instance["offer"]["region"] == SIMULATED for instance in instances):
        notice("The costs of embedded pools are simulated")


def _reason(instance: Json) -> str:
    """Why it ends or what is unusual; of one without work, why it is kept and until when."""
    if leaves_at := instance.get("leavesAt"):  # masters of 0.2 do not say
        gone = f"taken back at {local_time(leaves_at)}: {instance['leavesBecause']}"
        return f"{instance['reason']}; {gone}" if instance["reason"] else gone
    kept = instance.get("keptBecause")
    if instance["reason"] or not kept:
        return str(instance["reason"] or "")
    until = instance.get("keptUntil")
    return f"kept until {local_time(until)}: {kept}" if until else f"kept: {kept}"


MACHINES = Table(
    Column("Instance", "id"),
    Column("Pool", "pool"),
    Column("Type", "offer.instanceType"),
    Column("Zone", "offer.zone"),
    Column("Market", "offer.market", lambda market: market.replace("_", "-")),
    Column("Slots", "slots"),
    Column("State", "activity"),
    Column("Age", "ageS", length),
    Column("Launched", "createdAt", local_time),
    Column("USD/h", "usdPerHour", decimals(2)),
    Column("USD", "usd", decimals(4)),
    Column("Reason", _reason),
    give_way=("Launched", "Zone", "Market", "USD", "Pool"),
)
