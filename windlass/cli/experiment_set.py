"""`det experiment set`: what may be changed of an experiment while it lives."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument, NotFound
from windlass.cli.connect import client_for
from windlass.cli.groups import AliasedGroup
from windlass.cli.job_words import live_experiment

app = typer.Typer(cls=AliasedGroup, no_args_is_help=True, add_completion=False)

ExperimentId = Annotated[int, typer.Argument(help="Experiment id.")]


@app.callback()
def group() -> None:
    """Change an experiment while it lives."""


@app.command()
def priority(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    value: Annotated[
        int,
        typer.Argument(metavar="PRIORITY", help="1 (most important) to 99. For priority pools."),
    ],
) -> None:
    """Who is served first."""
    _set(ctx, experiment_id, "priority", "priority", value)


@app.command()
def weight(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    value: Annotated[
        float,
        typer.Argument(metavar="WEIGHT", help="Share, relative to others. For fair_share pools."),
    ],
) -> None:
    """How large its share is."""
    _set(ctx, experiment_id, "weight", "weight", value)


@app.command("max-slots")
def max_slots(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    value: Annotated[str, typer.Argument(metavar="SLOTS", help="A number, or none: no limit.")],
) -> None:
    """How many slots it may hold at once."""
    _set(ctx, experiment_id, "max_slots", "maxSlots", _slots(value))


def _slots(text: str) -> int | None:
    if text.strip().lower() in ("null", "none"):
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(
            f'max-slots must be a number of slots, or none for no limit, but is "{text}"'
        ) from None


def _set(ctx: typer.Context, experiment_id: int, name: str, key: str, value: Any) -> None:
    client = client_for(ctx)
    try:
        client.set_resources(experiment_id, {key: value})
    except NotFound:
        live_experiment(client, experiment_id)  # says more: which state it ended in
        raise
    shown = "none" if value is None else f"{value:g}"
    typer.echo(f"Set {name} of experiment {experiment_id} to {shown}")
