"""`det experiment label`: the labels of an experiment."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.cli.completion import ExperimentId
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group

app = command_group("Add and remove labels of an experiment.")

LabelArgument = Annotated[str, typer.Argument(metavar="LABEL")]


@app.command()
def add(ctx: typer.Context, experiment_id: ExperimentId, label: LabelArgument) -> None:
    """Add a label."""
    _tell(experiment_id, client_for(ctx).add_label(experiment_id, label))


@app.command()
def remove(ctx: typer.Context, experiment_id: ExperimentId, label: LabelArgument) -> None:
    """Remove a label."""
    _tell(experiment_id, client_for(ctx).remove_label(experiment_id, label))


def _tell(experiment_id: int, labels: list[str]) -> None:
    typer.echo(f"Labels of experiment {experiment_id}: {', '.join(sorted(labels)) or 'none'}")
