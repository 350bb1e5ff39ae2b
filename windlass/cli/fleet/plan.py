"""`det fleet plan`: what elastic pools would launch now, before anything is paid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.base.formats.plurals import counted
from windlass.cli.completion import TemplateOption
from windlass.cli.config_file import naming, read_config, read_settings
from windlass.cli.connect import client_for
from windlass.cli.fleet.machines import length
from windlass.cli.output.columns import Column, JsonOption, Table, decimals
from windlass.cli.output.text import print_json, say, usd
from windlass.sdk.wire import Json

MOST_SHAPES = 5
"""Shapes of runs whose offers are shown."""


def plan(
    ctx: typer.Context,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "-f", "--config-file", help="Add what this configuration (YAML) would ask for."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="Override a key of it. Repeatable."),
    ] = None,
    template: TemplateOption = None,
    command: Annotated[
        bool, typer.Option("--command", help="It is that of a command, not of an experiment.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what would be launched now, where and for how much, and why nothing else. Launches nothing."""
    client = client_for(ctx)
    if config_file is None and (config or template):
        raise typer.BadParameter("--config and --template are for the file that -f names")
    if config_file is None:
        found = client.fleet_plan()
    else:
        with naming(config_file):
            if command:
                settings = read_settings(config_file, config or [])
                found = client.fleet_plan(command=settings, template=template)
            else:
                text = read_config(config_file, config or [])
                found = client.fleet_plan(experiment=text, template=template)
    if as_json:
        print_json(found)
        return
    print_start(found)
    for waiting in found["waiting"]:
        say(f"{counted(waiting['runs'], 'run')} in pool {waiting['pool']}: {_text(waiting)}")
    _print_considered(found["considered"])


def print_start(found: Json) -> None:
    """What becomes of the runs that were asked for, and what would be launched."""
    for asked in found["asked"]:
        say(f"{_runs(asked)}: {_fate(asked)}")
    _print_launches(found)


def _print_launches(found: Json) -> None:
    launches = found["launches"]
    if not launches:
        say("Nothing would be launched now")
        return
    LAUNCHES.print(launches)
    machines = sum(each["machines"] for each in launches)
    say(f"Together {counted(machines, 'machine')}, {_total(found['usdPerHour'])} per hour")


def _print_considered(considered: list[Json]) -> None:
    for each in considered[:MOST_SHAPES]:
        asks = f" that ask for {each['asks']}" if each["asks"] else ""
        say(f"\nWeighed for {_runs(each)}{asks}:")
        CONSIDERED.print(each["offers"])
    if len(considered) > MOST_SHAPES:
        say(f"\nAnd for {len(considered) - MOST_SHAPES} more kinds of runs: see --json")


def _runs_there(each: Json) -> str:
    runs = str(each["runs"]) if each["runs"] else "(minimum)"
    mine = each["runsOfConfig"]
    return f"{runs}, {mine} of this" if mine else runs


def _slowdown(each: Json) -> str:
    """Of runs over several machines; masters of 0.2 do not say."""
    slower = each.get("slowdown", 1.0)
    return f"{slower:.2f} x as long" if slower > 1 else ""


def _runs(each: Json) -> str:
    slots = each["slots"]
    one = " on one agent" if each.get("singleAgent") and slots > 1 else ""
    return f"{counted(each['runs'], 'run')} of {counted(slots, 'slot')}{one} in pool {each['pool']}"


def _fate(asked: Json) -> str:
    if asked["outcome"] == "starts":
        return "starts now, on free slots" if asked["runs"] == 1 else "start now, on free slots"
    if asked["outcome"] == "launches":
        return "machines would be launched"
    other = asked["fallBack"]
    if other is None:
        return _text(asked)
    pause_s = round(other["afterS"])
    when = f"after {length(pause_s)}" if pause_s else "at once"
    how = "on free slots" if other["outcome"] == "starts" else "where machines would be launched"
    return f"{_text(asked)}; {when} to pool {other['pool']}, {how}"


def _text(waiting: Json) -> str:
    reason = waiting["reason"] or {}
    return str(reason.get("text") or "waits")


def _total(amount: float | None) -> str:
    return "an unknown number of USD" if amount is None else usd(amount)


_usd = decimals(2, unknown="unknown")

LAUNCHES = Table(
    Column("Launch", "offer"),
    Column("Pool", "pool"),
    Column("Machines", "machines"),
    Column("Slots", "slots"),
    Column("USD/h", "usdPerHour", _usd),
    Column("Ready in", "readyInS", length),
    Column("Runs", _runs_there),
)
CONSIDERED = Table(
    Column("Offer", "offer"),
    Column("Machines", lambda each: each["machines"] or ""),
    Column("USD/h", lambda each: _usd(each["usdPerHour"]) if each["machines"] else ""),
    Column("Network", _slowdown),
    Column("Expected", lambda each: _usd(each["usdPerWorkHour"]) if each["machines"] else ""),
    Column("Launched", lambda each: each["launched"] or ""),
    Column("Why not", "whyNot", below="is not launched"),
)
