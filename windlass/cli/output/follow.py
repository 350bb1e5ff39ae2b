"""Log streams and waiting for an experiment. Both survive a restart of the master."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import typer

from windlass.cli.output.terminal import escaped, for_terminal
from windlass.cli.output.text import notice, percent, print_json, state_name, waiting_text
from windlass.sdk.client import TERMINAL_STATES, Client
from windlass.sdk.wire import RETRY_STATUSES, Json, MasterError, MasterUnreachable

POLL_S = 1.0
PATIENCE_S = 600.0
"""How long a master may be unreachable before watching gives up."""

MAX_WAIT_S = 5.0

T = TypeVar("T")


def print_logs(
    client: Client,
    trial_id: int,
    *,
    follow: bool = False,
    head: int | None = None,
    tail: int | None = None,
    as_json: bool = False,
    raw: bool = False,
) -> None:
    """Print the log lines of a trial. `raw`: also a terminal gets them as they are."""
    print_entries(
        lambda: client.logs(trial_id, follow=follow, head=head, tail=tail),
        follow=follow,
        as_json=as_json,
        raw=raw,
    )


def print_entries(
    read: Callable[[], Iterator[Json]],
    *,
    follow: bool = False,
    as_json: bool = False,
    raw: bool = False,
) -> None:
    """Print log lines. A stream that breaks while following is read again, without printing a line twice."""
    seen: set[str] = set()

    def print_all() -> None:
        for entry in read():
            if str(entry.get("id")) in seen:
                continue
            if follow:
                seen.add(str(entry.get("id")))
            _print_entry(entry, as_json, raw)

    if follow:
        patiently(print_all)
    else:
        print_all()


def await_first_trial(client: Client, experiment_id: int) -> int | None:
    """The id of the first trial, as soon as there is one; None if the experiment ends without any."""
    waiting = ""
    while True:
        trials = patiently(lambda: client.trials(experiment_id))
        if trials:
            return int(trials[0]["id"])
        experiment = patiently(lambda: client.experiment(experiment_id))["experiment"]
        if experiment.get("state") in TERMINAL_STATES:
            return None
        if waiting_text(experiment) not in ("", waiting):
            waiting = waiting_text(experiment)
            notice(f"Experiment {experiment_id} is waiting: {waiting}")
        time.sleep(POLL_S / 5)


def await_trial_end(client: Client, trial_id: int) -> Json:
    """The trial once it has ended. Its log ends a moment earlier."""
    while (trial := patiently(lambda: client.trial(trial_id))).get("state") not in TERMINAL_STATES:
        time.sleep(POLL_S / 5)
    return trial


def wait_for_end(client: Client, experiment_id: int, interval_s: float) -> Json:
    """Show state, progress and what it waits for until the experiment ends. Returns it as it is then."""
    show = _live_line() if sys.stderr.isatty() else _changed_line()
    try:
        while True:
            experiment = patiently(lambda: client.experiment(experiment_id))["experiment"]
            show(_summary(experiment))
            if experiment.get("state") in TERMINAL_STATES:
                return dict(experiment)
            time.sleep(interval_s)
    finally:
        show("")


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


def _summary(experiment: Json) -> str:
    parts = [
        f"experiment {experiment.get('id')}",
        state_name(experiment.get("state")),
        percent(experiment.get("progress")),
    ]
    waiting = waiting_text(experiment)
    return "  ".join(parts) + (f"  waiting: {waiting}" if waiting else "")


def _changed_line() -> Callable[[str], None]:
    last = [""]

    def show(text: str) -> None:
        if text and text != last[0]:
            notice(text)
        last[0] = text

    return show


def _live_line() -> Callable[[str], None]:
    from rich.console import Console

    status = Console(stderr=True).status("")
    status.start()

    def show(text: str) -> None:
        if text:
            status.update(escaped(text).replace("[", "\\["))
        else:
            status.stop()

    return show


def _print_entry(entry: dict[str, Any], as_json: bool, raw: bool) -> None:
    if as_json:
        print_json(entry)
        return
    message = str(entry.get("message", ""))
    if not raw:
        message = for_terminal(message)
    # With colours, or a file would get the line without some of its bytes.
    typer.echo(message, nl=not message.endswith("\n"), color=True)
