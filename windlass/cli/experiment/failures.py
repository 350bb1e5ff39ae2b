"""Why an experiment or a trial failed, and the command that shows its log."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.cli.output.text import notice, state_name
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

FAILED = "STATE_ERROR"
MOST_TRIALS = 3
"""Failed trials that are named: the others mostly failed in the same way."""
_OVER = (FAILED, "STATE_CANCELED", "STATE_COMPLETED")
_TRIAL_STATES = (FAILED, "STATE_STOPPING_ERROR")


def error_of(thing: Json) -> str:
    """Of an experiment or a trial; empty unless it failed."""
    if thing.get("state") not in _TRIAL_STATES:
        return ""
    return str(thing.get("error") or "no reason was recorded")


def print_failure(client: Client, experiment: Json, trials: Sequence[Json] | None = None) -> None:
    """Say why an experiment failed, or trials of one that goes on: the first ones, and where their logs are."""
    number = experiment.get("id")
    if experiment.get("state") in _OVER:
        notice(f"Experiment {number} {_ended(experiment)}")
    known = client.trials(int(str(number))) if trials is None else trials
    failed = [trial for trial in known if error_of(trial)]
    for trial in failed[:MOST_TRIALS]:
        print_trial_failure(trial)
    if len(failed) > MOST_TRIALS:
        notice(
            f"{len(failed) - MOST_TRIALS} more trials failed: det experiment list-trials {number}"
        )


def print_trial_failure(trial: Json) -> None:
    notice(f"Trial {trial.get('id')} failed: {error_of(trial)}")
    notice(f"Show its log: det trial logs {trial.get('id')}")


def _ended(experiment: Json) -> str:
    if error := error_of(experiment):
        return f"failed: {error}"
    return f"ended as {state_name(experiment.get('state'))}"
