"""What `det experiment describe` shows of a search: how the best trials went, and the rungs of a halving search."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from windlass.cli.output.columns import print_rows
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

BEST = 10
"""Trials whose metric is drawn."""
WIDTH = 24
BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=*#"
HALVING = ("async_halving", "adaptive_asha")


def print_trends(client: Client, config: Json, trials: Sequence[Json]) -> None:
    """The searcher's metric over time of the best trials, the best one first."""
    searcher = config.get("searcher") or {}
    metric = searcher.get("metric")
    known = [t for t in trials if isinstance(t.get("searcherMetricValue"), int | float)]
    if not metric or not known:
        return
    down = not searcher.get("smaller_is_better", True)
    known.sort(key=lambda trial: trial["searcherMetricValue"], reverse=down)
    best = [int(trial["id"]) for trial in known[:BEST]]
    series = client.validation_series(best, str(metric), points=WIDTH)
    typer.echo(f"\n{metric} of the best trials" if len(known) > 1 else f"\n{metric}")
    rows = []
    for trial in known[:BEST]:
        values = series.get(int(trial["id"]), [])
        if values:
            best_value = trial["searcherMetricValue"]
            rows.append([trial["id"], sparkline(values), values[0], values[-1], best_value])
    print_rows(["Trial", "Over time", "First", "Last", "Best"], rows)


def sparkline(values: Sequence[float], bars: str = "") -> str:
    """A bar for each value, from the smallest to the largest; `bars`: low to high."""
    bars = bars or (BARS if _is_unicode() else PLAIN_BARS)
    low, high = min(values), max(values)
    if high <= low:
        return bars[0] * len(values)
    top = len(bars) - 1
    return "".join(bars[round((value - low) / (high - low) * top)] for value in values)


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def print_rungs(client: Client, experiment: Json) -> None:
    """Of a halving search: how many trials were ranked at each rung, how many went on, and the best there."""
    if experiment.get("searcherType") not in HALVING:
        return
    found = client.searcher(int(experiment["id"]))
    rows = []
    for rung in found["rungs"]:
        entries = rung["entries"]
        best = entries[0] if entries else {}
        rows.append(
            [
                rung["bracket"],
                rung["rung"],
                rung["units"],
                len(entries),
                sum(entry["promoted"] for entry in entries),
                len(rung["training"]),
                best.get("metric"),
                best.get("trialId"),
                _needed(rung),
            ]
        )
    typer.echo("\nRungs")
    titles = ["Bracket", "Rung", "Length", "Trials", "Went on", "On the way", "Best", "Best trial"]
    print_rows([*titles, "Next needs"], rows)


def _needed(rung: Json) -> object:
    """What the next trial ranked there needs to go on."""
    if rung["isLast"]:
        return "ends here"
    return "any metric" if rung["toGoOn"] is None else rung["toGoOn"]
