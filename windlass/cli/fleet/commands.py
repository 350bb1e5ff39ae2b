"""`windlass fleet`: the machines of elastic pools, what may be bought, and what it costs."""

from __future__ import annotations

from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any

import typer

from windlass.base.durations import format_duration
from windlass.base.errors import NotFound
from windlass.cli.connect import client_for
from windlass.cli.fleet.bake import bake
from windlass.cli.fleet.plan import plan
from windlass.cli.groups import AliasedGroup
from windlass.cli.output.states import STATE
from windlass.cli.output.text import (
    REFUSED,
    CsvOption,
    JsonOption,
    LimitOption,
    notice,
    print_fields,
    print_json,
    print_rows,
    say,
    usd,
)
from windlass.cli.output.times import UtcOption, local_time

app = typer.Typer(
    cls=AliasedGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Show the machines of elastic pools, what may be bought, and what it costs.",
)

UNUSED = "(nobody)"
"""Stands for machines that booted, were idle or were lost."""
SIMULATED = "local"
"""The region of embedded pools, whose prices are invented."""


class By(StrEnum):
    """What costs are summed up by."""

    POOL = "pool"
    USER = "user"
    EXPERIMENT = "experiment"
    JOB = "job"
    INSTANCE = "instance"
    MONTH = "month"


@app.callback()
def group() -> None:
    """Show the machines of elastic pools, what may be bought, and what it costs."""


@app.command("list")
def list_instances(
    ctx: typer.Context,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """List the machines that exist now, and why each was launched or is ending."""
    fleet = client_for(ctx).fleet()
    instances = fleet["instances"][:limit]
    if as_json:
        print_json(instances)
        return
    headers = [
        "Instance",
        "Pool",
        "Type",
        "Zone",
        "Market",
        "Slots",
        "State",
        "Age",
        "Launched",
        "USD/h",
        "USD",
        "Reason",
    ]
    print_rows(
        headers,
        [_row(instance) for instance in instances],
        as_csv=as_csv,
        give_way=("Launched", "Zone", "Market", "USD", "Pool"),
    )
    for blocked in fleet.get("blockedOffers") or []:
        type_ = blocked["offer"]["instanceType"]
        until = f" until {local_time(blocked['until'])}" if blocked["until"] else ""
        notice(f"No {type_}{until}: {blocked['reason']}")
    _say_if_simulated(instances)


app.command()(plan)
app.command()(bake)


@app.command()
def describe(
    ctx: typer.Context,
    instance: Annotated[str, typer.Argument(help="Its id, as `list` shows it.")],
    as_json: JsonOption = False,
    utc: UtcOption = False,
) -> None:
    """Show one machine: what it is, its life so far, what it costs, what runs on it, why it ends."""
    client = client_for(ctx)
    fleet = {each["id"]: each for each in client.fleet()["instances"]}
    found = fleet.get(instance)
    if found is None:
        near = get_close_matches(instance, fleet, cutoff=0.3)
        raise NotFound("instance", instance, f"; nearest: {', '.join(near)}" if near else "")
    agents = [agent for agent in client.agents() if agent["id"] == instance]
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
            ("instance", instance),
            ("pool", found["pool"]),
            ("offer", "/".join(part for part in (*place, offer["market"]) if part)),
            ("slots", found["slots"]),
            ("state", found["activity"]),
            ("launched", local_time(found["createdAt"])),
            ("ready", local_time(found["readyAt"])),
            ("age", _length(found["ageS"])),
            ("idle for", None if idle is None else _length(idle)),
            ("cost per hour", usd(found["usdPerHour"])),
            ("cost so far", usd(found["usd"])),
            ("runs", ", ".join(each["name"] for each in uses)),
            ("reason", _reason(found)),
        ]
    )
    _say_if_simulated([found])


@app.command()
def offers(
    ctx: typer.Context,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """List what elastic pools may buy: price, time to boot, and what was refused until when."""
    answer = client_for(ctx).fleet_offers()
    found = answer["offers"][:limit]
    if as_json:
        print_json(found)
        return
    headers = [
        "Offer",
        "Pool",
        "Slots",
        "GPU",
        "USD/h",
        "Price from",
        "Boot",
        STATE,
        "Next try",
        "Applies to",
        REFUSED,
    ]
    print_rows(
        headers,
        [_offer_row(offer) for offer in found],
        as_csv=as_csv,
        give_way=("Applies to", "Price from", "Boot", "Next try", "GPU", "Pool"),
    )
    for warning in answer.get("warnings") or []:
        notice(warning)


@app.command()
def retry(
    ctx: typer.Context,
    offer: Annotated[str, typer.Argument(help="Its name, as `offers` shows it.")],
    as_json: JsonOption = False,
) -> None:
    """Forget why an offer was refused, and try it again when something needs it. For administrators."""
    found = client_for(ctx).retry_offer(offer)
    if as_json:
        print_json(found)
        return
    for each in found:
        reason = f": {each['reason']}" if each["reason"] else ""
        say(f"Offer {offer} of pool {each['pool']} is {each['state']}{reason}")


@app.command()
def costs(
    ctx: typer.Context,
    by: Annotated[
        By | None, typer.Option("--by", help="Sum up by this instead of showing the fleet.")
    ] = None,
    month: Annotated[
        str | None,
        typer.Option("--month", help="Of this month (2026-11, in UTC), or all. Default: this one."),
    ] = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """Show what the fleet costs, beside a fleet of its peak size that is always on; or who caused it."""
    client = client_for(ctx)
    if by is not None or month is not None:
        found = client.fleet_costs((by or By.POOL).value, month)
        if as_json:
            print_json(found)
        else:
            _print_costs(found, limit, as_csv=as_csv)
        return
    fleet = client.fleet()
    if as_json:
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
    _say_if_simulated(fleet["instances"])


def _print_costs(found: dict[str, Any], limit: int | None, *, as_csv: bool) -> None:
    kinds = ["Busy", "Boot", "Idle", "Lost", "Stopped"]
    headers = [found["by"].capitalize(), "USD", *kinds, "Machine hours"]
    rows = [_cost_row(row, row["name"] or UNUSED) for row in found["rows"][:limit]]
    print_rows(headers, [*rows, _cost_row(found["total"], "total")], as_csv=as_csv)


def _cost_row(row: dict[str, Any], name: str) -> list[str]:
    kinds = ("usd", "busyUsd", "bootUsd", "idleUsd", "lostUsd", "stoppedUsd")
    amounts = [row.get(key, 0.0) for key in kinds]  # masters of 0.1 stop no machines
    return [name, *(f"{amount:.4f}" for amount in amounts), f"{row['machineHours']:.2f}"]


def _row(instance: dict[str, Any]) -> list[Any]:
    offer = instance["offer"]
    return [
        instance["id"],
        instance["pool"],
        offer["instanceType"],
        offer["zone"],
        offer["market"].replace("_", "-"),
        instance["slots"],
        instance["activity"],
        _length(instance["ageS"]),
        local_time(instance.get("createdAt")),
        f"{instance['usdPerHour']:.2f}",
        f"{instance['usd']:.4f}",
        _reason(instance),
    ]


def _reason(instance: dict[str, Any]) -> str:
    """Why it ends or what is unusual; of one without work, why it is kept and until when."""
    if leaves_at := instance.get("leavesAt"):  # masters of 0.2 do not say
        gone = f"taken back at {local_time(leaves_at)}: {instance['leavesBecause']}"
        return f"{instance['reason']}; {gone}" if instance["reason"] else gone
    kept = instance.get("keptBecause")
    if instance["reason"] or not kept:
        return str(instance["reason"] or "")
    until = instance.get("keptUntil")
    return f"kept until {local_time(until)}: {kept}" if until else f"kept: {kept}"


def _offer_row(offer: dict[str, Any]) -> list[Any]:
    scope: dict[str, Any] = offer["scope"] or {}
    memory = offer["gpuMemoryMib"]
    gpu = f"{offer['gpuModel']} {memory / 1024:g} GiB" if memory else offer["gpuModel"]
    price = offer["usdPerHour"]
    learned = "" if offer["bootIsLearned"] else " (not measured)"
    return [
        offer["name"],
        offer["pool"],
        offer["slots"],
        gpu,
        "unknown" if price is None else f"{price:.2f}",
        offer.get("priceOrigin", ""),
        f"{_length(offer['bootS'])}{learned}",
        offer["state"],
        local_time(offer["nextTryAt"]),
        "/".join(part for part in scope.values() if part),
        offer["reason"],
    ]


def _length(seconds: float) -> str:
    return format_duration(timedelta(seconds=round(seconds)))


def _say_if_simulated(instances: list[dict[str, Any]]) -> None:
    if any(instance["offer"]["region"] == SIMULATED for instance in instances):
        notice("The costs of embedded pools are simulated")
