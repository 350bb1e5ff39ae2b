"""What commands print: a table for people, plain columns for pipes, JSON and CSV for programs."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from windlass.cli.output.states import STATE, style
from windlass.cli.output.terminal import escaped, for_terminal

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
RawOption = Annotated[
    bool, typer.Option("--raw", help="Print control characters as they are, also to a terminal.")
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Show at most this many rows.")
]

WAITING = "Waiting for"
"""The column with what an experiment or a trial waits for."""
ERROR = "Error"
"""The column with why it failed."""
REFUSED = "Refused"
"""The column with why the master does not take an agent."""
WHY_NOT = "Why not"
"""The column with why an offer would not be launched."""
SENTENCES = {
    WAITING: "waits for",
    ERROR: "failed",
    REFUSED: "was refused",
    WHY_NOT: "is not launched",
}
"""Columns of long text, and the words that lead to it where it is printed below a narrow table."""
WORD_LIMIT = 36
"""Words up to this length, that of a UUID, are not broken over lines."""


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, default=str))


def print_yaml(document: Any) -> None:
    import yaml

    typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def print_rows(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    as_csv: bool = False,
    named_by: int = 0,
    give_way: Sequence[str] = (),
) -> None:
    """A table that fits the terminal; without a terminal, aligned columns that are never cut.

    `named_by`: the column that names a row where its long texts follow below the table. `give_way`: columns that are
    left out of a terminal without room for them, the first one first; a line below names them.
    """
    text = [[_text(cell) for cell in row] for row in rows]
    if as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([headers, *text])
    elif sys.stdout.isatty():
        _print_table(headers, [[escaped(cell) for cell in row] for row in text], named_by, give_way)
    else:
        _print_columns(headers, text)


def print_fields(fields: Sequence[tuple[str, Any]]) -> None:
    """One thing, a line per field. Fields without a value are left out."""
    shown = [
        (name, for_terminal(_text(value)))
        for name, value in fields
        if value not in (None, "", [], {})
    ]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        coloured = name == STATE.lower() and "NO_COLOR" not in os.environ
        colour = style(value) if coloured else ""
        typer.echo(f"{name:<{width}}  {typer.style(value, fg=colour) if colour else value}")


def say(message: str) -> None:
    typer.echo(for_terminal(message))


def notice(message: str) -> None:
    typer.echo(for_terminal(message, sys.stderr), err=True)


def see_log(tasks: Sequence[str]) -> str:
    """The end of a sentence about something that these tasks do."""
    return "".join(f"\nTo see how it went: det task logs {task}" for task in tasks)


def state_name(state: str | None) -> str:
    return (state or "").removeprefix("STATE_")


def usd(amount: float) -> str:
    """Money in sentences: as the master writes it, and more digits of what is less than a dollar."""
    return f"{amount:,.2f} USD" if abs(amount) >= 1 else f"{amount:.4f} USD"


def percent(progress: float | None) -> str:
    return "N/A" if progress is None else f"{100 * progress:.1f}%"


def waiting_text(document: dict[str, Any]) -> str:
    """Why an experiment or trial waits, in the master's words; empty if it does not."""
    reasons = document.get("waitingReasons")
    if not isinstance(reasons, list) or not reasons:
        reasons = [document.get("waitingReason")]
    texts = [r.get("text", "") if isinstance(r, dict) else str(r) for r in reasons if r]
    return "; ".join(dict.fromkeys(t for t in texts if t))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)


def _print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], named_by: int, give_way: Sequence[str]
) -> None:
    """A table as wide as the terminal. If that is narrow, empty columns go, long texts follow below, and what may
    give way does; what does not fit even so is left to the terminal to wrap."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    shown = list(range(len(headers)))
    columns = [[row[i] for row in [headers, *rows]] for i in shown]
    below: list[str] = []
    if sum(len(max(c, key=len)) + 2 for c in columns) - 2 > console.width:
        shown = [i for i in shown if not rows or any(columns[i][1:])]
        for i in [i for i in shown if headers[i] in SENTENCES]:
            shown.remove(i)
            words = SENTENCES[headers[i]]
            below += [f"{row[named_by]} {words}: {row[i]}" for row in rows if row[i]]
    gap, widths = fit_columns([columns[i] for i in shown], console.width)
    gone: list[str] = []
    for name in give_way:
        if sum(widths) + gap * (len(widths) - 1) <= console.width:
            break
        kept = [i for i in shown if headers[i] != name]
        if kept != shown:
            shown = kept
            gone.append(name)
            gap, widths = fit_columns([columns[i] for i in shown], console.width)
    if sum(widths) + gap * (len(widths) - 1) > console.width:
        _print_columns([headers[i] for i in shown], [[row[i] for i in shown] for row in rows])
    else:
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        for i, width in zip(shown, widths, strict=True):
            table.add_column(headers[i], overflow="fold", width=width)
        for row in rows:
            table.add_row(
                *(Text(row[i], style(row[i]) if headers[i] == STATE else "") for i in shown)
            )
        console.print(table)
    if gone:
        below.append(f"Left out for want of room: {', '.join(gone)}. All of it: --json or --csv")
    for line in below:
        console.print(Text(line))


def fit_columns(columns: Sequence[Sequence[str]], room: int) -> tuple[int, list[int]]:
    """The gap between columns and their widths: the widest give way first, down to their longest word."""
    widths = [max(map(len, cells)) for cells in columns]
    least = [
        min(WORD_LIMIT, max((len(word) for cell in cells for word in cell.split()), default=0))
        for cells in columns
    ]
    gap = 2 if sum(least) + 2 * (len(columns) - 1) <= room else 1
    while sum(widths) + gap * (len(columns) - 1) > room:
        spare, widest = max((widths[i] - least[i], i) for i in range(len(widths)))
        if spare <= 0:
            break
        widths[widest] -= 1
    return gap, widths


def _print_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(r[i]) for r in [headers, *rows]) for i in range(len(headers))]
    for row in [headers, *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(line.rstrip())
