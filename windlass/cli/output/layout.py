"""Tables on a terminal: as wide as it is; and aligned columns for pipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import typer

from windlass.cli.output.text import STATE, style

WORD_LIMIT = 36
"""Words up to this length, that of a UUID, are not broken over lines."""
LEAST_CUT = 10
"""Columns that are cut show at least so many characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """What gives way where there is no room. All by header."""

    below: Mapping[str, str]
    """Columns of long texts, and the words that lead to it where it is printed below the table."""
    named_by: str
    give_way: Sequence[str]


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], layout: TableLayout) -> None:
    """A table as wide as the terminal. If that is narrow, empty columns go, long texts follow below, what may give way
    does, and the widest columns are cut; what does not fit even so is left to the terminal to wrap."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    shown = list(range(len(headers)))
    columns = [[row[i] for row in [headers, *rows]] for i in shown]
    below: list[str] = []
    if sum(len(max(c, key=len)) + 2 for c in columns) - 2 > console.width:
        shown = [i for i in shown if not rows or any(columns[i][1:])]
        names = rows and columns[headers.index(layout.named_by)][1:]
        for i in [i for i in shown if headers[i] in layout.below]:
            shown.remove(i)
            texts = zip(names, columns[i][1:], strict=True)
            below += [f"{name} {layout.below[headers[i]]}: {text}" for name, text in texts if text]
    gap, widths = fit_columns([columns[i] for i in shown], console.width)
    gone: list[str] = []
    for name in layout.give_way:
        if sum(widths) + gap * (len(widths) - 1) <= console.width:
            break
        kept = [i for i in shown if headers[i] != name]
        if kept != shown:
            shown = kept
            gone.append(name)
            gap, widths = fit_columns([columns[i] for i in shown], console.width)
    whole, keep = widths, _index(shown, headers, layout.named_by)
    widths = cut_widest(whole, console.width - gap * (len(whole) - 1), keep=keep)
    cut = [at for at, width in enumerate(widths) if width < whole[at]]
    if sum(widths) + gap * (len(widths) - 1) > console.width:
        print_columns([headers[i] for i in shown], [[row[i] for i in shown] for row in rows])
    else:
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        for at, (i, width) in enumerate(zip(shown, widths, strict=True)):
            is_cut = at in cut
            overflow: Literal["ellipsis", "fold"] = "ellipsis" if is_cut else "fold"
            table.add_column(headers[i], overflow=overflow, width=width, no_wrap=is_cut)
        for row in rows:
            table.add_row(
                *(Text(row[i], style(row[i]) if headers[i] == STATE else "") for i in shown)
            )
        console.print(table)
        if cut:
            names = ", ".join(headers[shown[at]] for at in cut)
            below.append(f"Cut to fit the terminal: {names}. In full: --json or --csv")
    if gone:
        below.append(f"Left out to fit the terminal: {', '.join(gone)}. In full: --json or --csv")
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


def cut_widest(widths: Sequence[int], room: int, *, keep: int | None = None) -> list[int]:
    """Widths that fit: the widest columns give way, the last one first; never `keep`. As they are if that cannot be."""
    least = [width if at == keep else min(width, LEAST_CUT) for at, width in enumerate(widths)]
    if sum(least) > room:
        return list(widths)
    now = list(widths)
    while sum(now) > room:
        _, at = max((now[at], at) for at in range(len(now)) if now[at] > least[at])
        now[at] -= 1
    return now


def _index(shown: Sequence[int], headers: Sequence[str], name: str) -> int | None:
    """Of a column among those that are shown."""
    return next((at for at, i in enumerate(shown) if headers[i] == name), None)


def print_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headers, *rows])
    typer.echo("\n".join(lines))
