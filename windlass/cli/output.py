"""What commands print: a table for people, plain columns for pipes, JSON and CSV for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, default=str))


def print_rows(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], *, as_csv: bool = False
) -> None:
    """A table that fits the terminal; without a terminal, aligned columns that are never cut."""
    text = [[_text(cell) for cell in row] for row in rows]
    if as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([headers, *text])
    elif sys.stdout.isatty():
        _print_table(headers, text)
    else:
        _print_columns(headers, text)


def print_fields(fields: Sequence[tuple[str, Any]]) -> None:
    """One thing, a line per field. Fields without a value are left out."""
    shown = [(name, _text(value)) for name, value in fields if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        typer.echo(f"{name:<{width}}  {value}")


def notice(message: str) -> None:
    typer.echo(message, err=True)


def state_name(state: str | None) -> str:
    return (state or "").removeprefix("STATE_")


def percent(progress: float | None) -> str:
    return "N/A" if progress is None else f"{100 * progress:.1f}%"


def local_time(timestamp: str | None) -> str:
    """A timestamp of the API in UTC to the second."""
    if not timestamp:
        return ""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return timestamp
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


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


def _print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _print_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(r[i]) for r in [headers, *rows]) for i in range(len(headers))]
    for row in [headers, *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(line.rstrip())
