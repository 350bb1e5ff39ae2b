"""`det experiment set`: change settings of an experiment."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.completion import ExperimentId
from windlass.cli.connect import client_for
from windlass.cli.experiment.log_retention import DaysOption, ForeverOption, set_retention
from windlass.cli.groups import command_group
from windlass.cli.output.columns import print_rows
from windlass.cli.output.text import see_log

app = command_group("Change settings of an experiment.")


@app.command()
def name(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    value: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
) -> None:
    """Rename an experiment."""
    _describe(ctx, experiment_id, "name", value)


@app.command()
def description(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    value: Annotated[str, typer.Argument(metavar="TEXT", help='The new description; "" for none.')],
) -> None:
    """Set the description of an experiment."""
    _describe(ctx, experiment_id, "description", value)


@app.command()
def priority(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    value: Annotated[
        int,
        typer.Argument(
            metavar="PRIORITY", help="1 (highest) to 99; for pools with the priority scheduler."
        ),
    ],
) -> None:
    """Set the priority of an experiment."""
    _set(ctx, experiment_id, "priority", "priority", value)


@app.command()
def weight(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    value: Annotated[
        float,
        typer.Argument(
            metavar="WEIGHT",
            help="Share relative to others; for pools with the fair_share scheduler.",
        ),
    ],
) -> None:
    """Set the fair-share weight of an experiment."""
    _set(ctx, experiment_id, "weight", "weight", value)


@app.command("max-slots")
def max_slots(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    value: Annotated[str, typer.Argument(metavar="SLOTS", help="A number, or none for no limit.")],
) -> None:
    """Limit the slots an experiment uses at once."""
    _set(ctx, experiment_id, "max_slots", "maxSlots", _slots(value))


@app.command("gc-policy")
def gc_policy(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    save_experiment_best: Annotated[
        int, typer.Option("--save-experiment-best", min=0, help="Best ones of the experiment.")
    ],
    save_trial_best: Annotated[
        int, typer.Option("--save-trial-best", min=0, help="Best ones of each trial.")
    ],
    save_trial_latest: Annotated[
        int, typer.Option("--save-trial-latest", min=0, help="Newest ones of each trial.")
    ],
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Set how many checkpoints are kept, and delete the others."""
    client = client_for(ctx)
    counts = {
        "save_experiment_best": save_experiment_best,
        "save_trial_best": save_trial_best,
        "save_trial_latest": save_trial_latest,
    }
    if not yes:
        doomed = client.preview_gc(experiment_id, counts)["checkpoints"]
        rows = [[c["TrialID"], c["StepsCompleted"], c["UUID"]] for c in doomed]
        print_rows(["Trial", "Steps", "UUID"], rows)
        typer.confirm(f"Delete these {len(doomed)} checkpoints for good?", abort=True)
    tasks = client.set_keep_counts(experiment_id, counts)
    done = f"Set the checkpoint keep counts of experiment {experiment_id}"
    typer.echo(f"{done}; deleting the others{see_log(tasks)}")


@app.command("log-retention")
def log_retention(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    days: DaysOption = None,
    forever: ForeverOption = False,
) -> None:
    """Set how long the logs of an experiment that has ended are kept."""
    set_retention(ctx, "experiment", experiment_id, days, forever)


def _describe(ctx: typer.Context, experiment_id: int, name: str, value: str) -> None:
    client_for(ctx).describe_experiment(experiment_id, {name: value})
    typer.echo(f'Set {name} of experiment {experiment_id} to "{value}"')


def _slots(text: str) -> int | None:
    if text.strip().lower() in ("null", "none"):
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f'max-slots must be a number or none, not "{text}"') from None


def _set(ctx: typer.Context, experiment_id: int, name: str, key: str, value: Any) -> None:
    client_for(ctx).set_resources(experiment_id, {key: value})
    shown = "none" if value is None else f"{value:g}"
    typer.echo(f"Set {name} of experiment {experiment_id} to {shown}")
