"""`det fleet plan`: what elastic pools would launch now, before anything is paid."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.base.durations import format_duration
from windlass.cli.config_file import naming, read_config, read_settings
from windlass.cli.connect import client_for
from windlass.cli.output.text import WHY_NOT, JsonOption, print_json, print_rows, say, usd

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
    command: Annotated[
        bool, typer.Option("--command", help="It is that of a command, not of an experiment.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what would be launched now, where and for how much, and why nothing else. Launches nothing."""
    client = client_for(ctx)
    if config_file is None and config:
        raise typer.BadParameter("--config changes the file that -f names")
    if config_file is None:
        found = client.fleet_plan()
    else:
        with naming(config_file):
            if command:
                found = client.fleet_plan(command=read_settings(config_file, config or []))
            else:
                found = client.fleet_plan(experiment=read_config(config_file, config or []))
    if as_json:
        print_json(found)
        return
    for asked in found["asked"]:
        say(f"{_runs(asked)}: {_fate(asked)}")
    _print_launches(found)
    for waiting in found["waiting"]:
        say(f"{_count(waiting['runs'])} in pool {waiting['pool']}: {_text(waiting)}")
    _print_considered(found["considered"])


def _print_launches(found: dict[str, Any]) -> None:
    launches = found["launches"]
    if not launches:
        say("Nothing would be launched now")
        return
    headers = ["Launch", "Pool", "Machines", "Slots", "USD/h", "Ready in", "Runs"]
    print_rows(headers, [_launch(each) for each in launches])
    machines = sum(each["machines"] for each in launches)
    noun = "machine" if machines == 1 else "machines"
    say(f"Together {machines} {noun}, {_total(found['usdPerHour'])} per hour")


def _print_considered(considered: list[dict[str, Any]]) -> None:
    headers = ["Offer", "Machines", "USD/h", "Network", "Expected", "Launched", WHY_NOT]
    for each in considered[:MOST_SHAPES]:
        asks = f" that ask for {each['asks']}" if each["asks"] else ""
        say(f"\nWeighed for {_runs(each)}{asks}:")
        print_rows(headers, [_offer(offer) for offer in each["offers"]])
    if len(considered) > MOST_SHAPES:
        say(f"\nAnd for {len(considered) - MOST_SHAPES} more kinds of runs: see --json")


def _launch(each: dict[str, Any]) -> list[Any]:
    runs = str(each["runs"]) if each["runs"] else "(minimum)"
    mine = each["runsOfConfig"]
    return [
        each["offer"],
        each["pool"],
        each["machines"],
        each["slots"],
        _usd(each["usdPerHour"]),
        format_duration(timedelta(seconds=round(each["readyInS"]))),
        f"{runs}, {mine} of this" if mine else runs,
    ]


def _offer(each: dict[str, Any]) -> list[Any]:
    return [
        each["offer"],
        each["machines"] or "",
        _usd(each["usdPerHour"]) if each["machines"] else "",
        _slowdown(each),
        _usd(each["usdPerWorkHour"]) if each["machines"] else "",
        each["launched"] or "",
        each["whyNot"],
    ]


def _slowdown(each: dict[str, Any]) -> str:
    """Of runs over several machines; masters of 0.2 do not say."""
    slower = each.get("slowdown", 1.0)
    return f"{slower:.2f} x as long" if slower > 1 else ""


def _runs(each: dict[str, Any]) -> str:
    slots = each["slots"]
    one = " on one agent" if each.get("singleAgent") and slots > 1 else ""
    noun = "slot" if slots == 1 else "slots"
    return f"{_count(each['runs'])} of {slots} {noun}{one} in pool {each['pool']}"


def _count(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"


def _fate(asked: dict[str, Any]) -> str:
    if asked["outcome"] == "starts":
        return "starts now, on free slots" if asked["runs"] == 1 else "start now, on free slots"
    if asked["outcome"] == "launches":
        return "machines would be launched"
    other = asked["fallBack"]
    if other is None:
        return _text(asked)
    pause_s = round(other["afterS"])
    when = f"after {format_duration(timedelta(seconds=pause_s))}" if pause_s else "at once"
    how = "on free slots" if other["outcome"] == "starts" else "where machines would be launched"
    return f"{_text(asked)}; {when} to pool {other['pool']}, {how}"


def _text(waiting: dict[str, Any]) -> str:
    reason = waiting["reason"] or {}
    return str(reason.get("text") or "waits")


def _total(amount: float | None) -> str:
    return "an unknown number of USD" if amount is None else usd(amount)


def _usd(amount: float | None) -> str:
    """In a column that says the unit."""
    return "unknown" if amount is None else f"{amount:.2f}"
