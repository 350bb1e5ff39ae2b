"""Following what changes: a state until it is reached, and a log. Both survive a restart of the master."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.terminal import escaped, for_terminal
from windlass.cli.output.text import notice, print_json
from windlass.sdk.wire import RETRY_STATUSES, Json, MasterError, MasterUnreachable

POLL_S = 1.0
FIRST_LOOK_S = 0.2
PATIENCE_S = 600.0
"""How long a master may be unreachable before watching gives up."""
MAX_WAIT_S = 5.0

RawOption = Annotated[
    bool, typer.Option("--raw", help="Print control characters as they are, also to a terminal.")
]
T = TypeVar("T")


def follow(
    look: Callable[[], T],
    until: Callable[[T], bool],
    tell: Callable[[T], object] | None = None,
    *,
    first_s: float = FIRST_LOOK_S,
    pause_s: float = POLL_S,
) -> T:
    """Look until it is so, and return what was seen then; `tell` is given all that was seen.

    The pauses grow from `first_s` to `pause_s`.
    """
    now_s = min(first_s, pause_s)
    while True:
        seen = patiently(look)
        if tell is not None:
            tell(seen)
        if until(seen):
            return seen
        time.sleep(now_s)
        now_s = min(pause_s, now_s * 1.5)


def changes(say: Callable[[str], object]) -> Callable[[str], None]:
    """Says each text once, until another one comes; never an empty one."""
    last = ""

    def tell(text: str) -> None:
        nonlocal last
        if text and text != last:
            say(text)
        last = text or last

    return tell


@contextmanager
def status_line() -> Iterator[Callable[[str], object]]:
    """One line that changes, on a terminal; else a line for each change."""
    if not sys.stderr.isatty():
        yield changes(notice)
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(escaped(text).replace("[", "\\["))


def patiently(ask: Callable[[], T]) -> T:
    """Ask again while the master is unreachable or overloaded, for PATIENCE_S at most. Said once."""
    import stamina

    told = False

    def may_pass(problem: Exception) -> bool:
        nonlocal told
        again = isinstance(problem, MasterUnreachable) or (
            isinstance(problem, MasterError) and problem.status in RETRY_STATUSES
        )
        if again and not told:
            told = True
            notice(f"{problem}. Trying again")
        return again

    stamina.instrumentation.set_on_retry_hooks([])  # they would log each try
    return stamina.retry(
        on=may_pass,
        attempts=None,
        timeout=PATIENCE_S,
        wait_initial=POLL_S / 2,
        wait_max=MAX_WAIT_S,
        wait_jitter=POLL_S / 2,
    )(ask)()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """Of commands that print a log; `show` prints it as they say."""

    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines until the log ends.")
    ] = False
    head: Annotated[
        int | None, typer.Option("--head", min=1, help="Print only the first N lines.")
    ] = None
    tail: Annotated[
        int | None, typer.Option("--tail", min=1, help="Print only the last N lines.")
    ] = None
    as_json: JsonOption = False
    raw: RawOption = False

    def __post_init__(self) -> None:
        if sum(map(bool, (self.follow, self.head, self.tail))) > 1:
            raise InvalidArgument("Use only one of --follow, --head and --tail")

    def show(self, read: Callable[..., Iterator[Json]], of: object) -> None:
        """`read`: one of the client's, given whose log it is. A stream that breaks while following is read again,
        without printing a line twice."""
        seen: set[str] = set()

        def print_all() -> None:
            for entry in read(of, follow=self.follow, head=self.head, tail=self.tail):
                if str(entry.get("id")) in seen:
                    continue
                if self.follow:
                    seen.add(str(entry.get("id")))
                self._print(entry)

        if self.follow:
            patiently(print_all)
        else:
            print_all()

    def _print(self, entry: dict[str, Any]) -> None:
        if self.as_json:
            print_json(entry)
            return
        message = str(entry.get("message", ""))
        if not self.raw:
            message = for_terminal(message)
        # With colours, or a file would get the line without some of its bytes.
        typer.echo(message, nl=not message.endswith("\n"), color=True)
