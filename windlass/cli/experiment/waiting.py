"""Waiting for an experiment: for its first trial, and for its end."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from windlass.cli.experiment.failures import error_of, print_failure, print_trial_failure
from windlass.cli.output.follow import (
    FIRST_LOOK_S,
    LogView,
    changes,
    follow,
    status_line,
)
from windlass.cli.output.text import notice, percent, state_name, waiting_text
from windlass.cli.published_ports import published
from windlass.sdk.client import TERMINAL_STATES, Client
from windlass.sdk.wire import Json


def wait_for_end(client: Client, experiment_id: int, interval_s: float) -> Json:
    """Show state, progress and what it waits for until the experiment ends. Returns it as it is then."""
    with status_line() as show:
        return follow(
            lambda: _experiment(client, experiment_id),
            has_ended,
            lambda experiment: show(_summary(experiment)),
            first_s=interval_s,
            pause_s=interval_s,
        )


def follow_first_trial(
    client: Client, experiment_id: int, ports: Mapping[int, int] | None = None
) -> None:
    """Print its log until it ends. Raises typer.Exit if it failed, or the experiment ended without one.

    `ports` of this machine lead to it meanwhile.
    """
    trial_id = _first_trial(client, experiment_id)
    if trial_id is None:
        print_failure(client, _experiment(client, experiment_id))
        raise typer.Exit(1)
    notice(f"Printing the log of trial {trial_id}")
    task_id = str(client.trial(trial_id).get("taskId")) if ports else ""
    with published(client, task_id, ports or {}):
        LogView(follow=True).show(client.logs, trial_id)
    # Its log ends a moment earlier than itself.
    trial = follow(lambda: client.trial(trial_id), has_ended, pause_s=FIRST_LOOK_S)
    if error_of(trial):
        print_trial_failure(trial)
        raise typer.Exit(1)


def has_ended(thing: Json) -> bool:
    """An experiment or a trial."""
    return thing.get("state") in TERMINAL_STATES


def _first_trial(client: Client, experiment_id: int) -> int | None:
    """As soon as there is one; None if the experiment ends without any."""
    say = changes(lambda waiting: notice(f"Experiment {experiment_id} is waiting: {waiting}"))

    def look() -> tuple[list[Json], Json]:
        trials = client.trials(experiment_id)
        return trials, {} if trials else _experiment(client, experiment_id)

    trials, _ = follow(
        look,
        lambda seen: bool(seen[0]) or has_ended(seen[1]),
        lambda seen: say(waiting_text(seen[1])) if not has_ended(seen[1]) else None,
        pause_s=FIRST_LOOK_S,
    )
    return int(trials[0]["id"]) if trials else None


def _experiment(client: Client, experiment_id: int) -> Json:
    return dict(client.experiment(experiment_id)["experiment"])


def _summary(experiment: Json) -> str:
    parts = [
        f"experiment {experiment.get('id')}",
        state_name(experiment.get("state")),
        percent(experiment.get("progress")),
    ]
    waiting = waiting_text(experiment)
    return "  ".join(parts) + (f"  waiting: {waiting}" if waiting else "")
