"""One terminal view of a search on an elastic pool, drawn from what the REST API answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]
FEWEST_TRIALS_SHOWN = 3
EVENTS_SHOWN = 5
ENDED = ("COMPLETED", "CANCELED", "ERROR")
_STATE_STYLE = {
    "booting": "yellow",
    "busy": "green",
    "idle": "cyan",
    "COMPLETED": "dim",
    "RUNNING": "green",
    "ERROR": "red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look at the cluster."""

    experiment: Json
    trials: list[Json]
    fleet: Json
    pool: Json
    rungs: list[Json] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0


def draw(now: Snapshot, height: int) -> RenderableType:
    """The view for a terminal of so many lines: the trials get what the other parts leave."""
    events = min(EVENTS_SHOWN, len(now.events))
    others = 4 + 2 + max(1, len(now.fleet["instances"])) + 2 + len(now.rungs) + events
    room = max(FEWEST_TRIALS_SHOWN, height - others - 2)
    return Group(_head(now), _fleet(now), _events(now), _trials(now, room), _rungs(now))


def progress_line(now: Snapshot) -> str:
    """The view in one line, for output that is no terminal."""
    e, trials = now.experiment, now.trials
    done = sum(1 for trial in trials if word(trial["state"]) in ENDED)
    values = [value for value in map(metric, trials) if value is not None]
    best = f"{min(values):.4f}" if values else "none yet"
    return (
        f"{now.elapsed_s:4.0f} s  {e['name']} {word(e['state'])}: trials done: {done} of {len(trials)} so far, "
        f"machines: {len(now.fleet['instances'])}, best error: {best}"
    )


def best_first(trials: list[Json]) -> list[Json]:
    """Trials by their best validation error; those without one last."""
    return sorted(trials, key=lambda t: (metric(t) is None, metric(t) or 0.0, t["id"]))


def metric(trial: Json) -> float | None:
    value = trial.get("searcherMetricValue")
    return float(value) if value is not None else None


def word(state: str) -> str:
    return state.removeprefix("STATE_")


def _head(now: Snapshot) -> RenderableType:
    e, pool, fleet = now.experiment, now.pool, now.fleet
    progress = float(e.get("progress") or 0.0)
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    line.add_column(justify="right", no_wrap=True)
    waiting = sum(int(w["slots"]) for w in pool["waiting"])
    line.add_row(
        f"[b]{e['name']}[/b]  {word(e['state'])}  {now.elapsed_s:.0f} s",
        f"slots: [b]{waiting}[/b] waiting, [b]{pool['slotsUsed']}[/b] of {pool['slotsTotal']} used"
        f"  [b]{fleet['usd']:.2f} USD[/b] at {fleet['usdPerHour']:.0f} USD/h",
    )
    return Panel(Group(line, ProgressBar(total=1.0, completed=progress)), padding=(0, 1))


def _fleet(now: Snapshot) -> RenderableType:
    table = Table(expand=True, box=None, title="instances", title_justify="left", pad_edge=False)
    _columns(table, ("instance", "type", "state", "age", "slots", "USD/h", "why"))
    for i in now.fleet["instances"]:
        table.add_row(
            i["id"],
            i["offer"]["instanceType"],
            Text(i["activity"], _STATE_STYLE.get(i["activity"], "")),
            f"{i['ageS']:.0f} s",
            str(i["slots"]),
            f"{i['usdPerHour']:.0f}",
            i.get("reason") or "",
        )
    if not now.fleet["instances"]:
        table.add_row("[dim]none[/dim]")
    return table


def _events(now: Snapshot) -> RenderableType:
    """The last things that happened to machines."""
    return Group(
        *(
            Text(line, "dim", no_wrap=True, overflow="ellipsis")
            for line in now.events[-EVENTS_SHOWN:]
        )
    )


def _trials(now: Snapshot, room: int) -> RenderableType:
    table = Table(
        expand=True, box=None, title="trials, best first", title_justify="left", pad_edge=False
    )
    _columns(table, ("trial", "state", "error", "epochs", "rate", "hidden", "waits for"))
    shown = len(now.trials) if len(now.trials) <= room else room - 1
    for t in best_first(now.trials)[:shown]:
        value, state = metric(t), word(t["state"]).partition("_")[0]
        table.add_row(
            str(t["id"]),
            Text(state, _STATE_STYLE.get(state, "")),
            "" if value is None else f"{value:.4f}",
            str(t["totalBatchesProcessed"]),
            f"{t['hparams']['learning_rate']:.2g}",
            f"{t['hparams']['hidden']} x {t['hparams']['layers']}",
            t.get("waitingReason") or "",
        )
    if len(now.trials) > shown:
        return Group(table, Text(f"and {len(now.trials) - shown} more", "dim"))
    return table


def _rungs(now: Snapshot) -> RenderableType:
    if not now.rungs:
        return ""
    table = Table(expand=True, box=None, title="rungs", title_justify="left", pad_edge=False)
    for name in ("bracket", "rung", "epochs", "reached it", "went on", "best error"):
        table.add_column(name)
    for r in now.rungs:
        entries = r["entries"]
        values = [e["metric"] for e in entries if e["metric"] is not None]
        table.add_row(
            str(r["bracket"]),
            str(r["rung"]),
            str(r["units"]),
            str(len(entries)),
            str(sum(1 for e in entries if e["promoted"])),
            f"{min(values):.4f}" if values else "",
        )
    return table


def _columns(table: Table, names: tuple[str, ...]) -> None:
    """Columns as wide as what they hold; the last takes the rest of the line and is cut first."""
    for name in names[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(names[-1], no_wrap=True, overflow="ellipsis", ratio=1)
