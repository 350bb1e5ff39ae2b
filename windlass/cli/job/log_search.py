"""Lines of the log of a task by what is in them, or by their numbers, as grep prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.output.follow import LogView
from windlass.cli.output.terminal import for_terminal
from windlass.cli.output.text import notice, print_json
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

MOST_HITS = 10_000
"""What a master lists."""
MOST_CONTEXT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearch:
    """Of commands that print a log: which lines, where that is not all."""

    search: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Print only lines that contain it, with their numbers."),
    ] = ""
    regex: Annotated[
        str,
        typer.Option(
            metavar="RE2", help="Print only lines that match the expression, with their numbers."
        ),
    ] = ""
    line: Annotated[
        int | None, typer.Option("--line", min=1, help="Print only the line with this number.")
    ] = None
    context: Annotated[
        int,
        typer.Option(
            "-C",
            "--context",
            min=0,
            max=MOST_CONTEXT,
            help="Print also so many lines before and after each.",
        ),
    ] = 0

    def is_asked(self, view: LogView) -> bool:
        """Raises InvalidArgument where options do not go together."""
        named = [f"--{name}" for name in ("search", "regex", "line") if getattr(self, name)]
        if not named and self.context:
            raise InvalidArgument("Use -C with --search, --regex or --line")
        if len(named) > 1:
            raise InvalidArgument(f"Use only one of {', '.join(named)}")
        if named and (view.follow or view.head or view.tail):
            raise InvalidArgument(f"Use {named[0]} without --follow, --head and --tail")
        return bool(named)

    def show(self, client: Client, task_id: str, view: LogView) -> None:
        from windlass.sdk.task_logs import TaskLog

        log, lines = TaskLog(client.session, task_id), _Lines(view, with_gaps=self.context > 0)
        if self.line is not None:
            around = log.around(line=self.line, lines=self.context)
            for entry in around:
                lines.show(entry, is_named=entry["number"] == self.line)
            if not around or around[-1]["number"] < self.line:
                notice(f"The log has no line {self.line}")
            return
        found, listed = 0, 0
        for step in log.search(text=self.search, regex=self.regex, limit=MOST_HITS):
            found, listed = step["found"], listed + len(step["hits"])
            named = {hit["id"] for hit in step["hits"]}
            for hit in step["hits"]:
                if hit["number"] <= lines.last:
                    continue  # it was in what is around one before
                around = log.around(id=hit["id"], lines=self.context) if self.context else [hit]
                for entry in around:
                    lines.show(entry, is_named=entry["id"] in named)
        if found > listed:
            notice(f"{found} lines were found; these are the first {listed}")
        elif not found:
            notice("No line was found")


class _Lines:
    """Each once: `12:` before one that was asked for, `12-` before those around it, `--` where some are left out."""

    def __init__(self, view: LogView, *, with_gaps: bool) -> None:
        self._view = view
        self._with_gaps = with_gaps
        self.last = 0
        """The number of the last one."""

    def show(self, entry: Json, *, is_named: bool) -> None:
        number = entry["number"]
        if number <= self.last:
            return
        has_gap, self.last = 0 < self.last < number - 1, number
        if self._view.as_json:
            print_json({**entry, "isHit": is_named})
            return
        if has_gap and self._with_gaps:
            typer.echo("--")
        message = str(entry["message"])
        text = message if self._view.raw else for_terminal(message)
        typer.echo(f"{number}{':' if is_named else '-'}{text}", nl=False, color=True)
