"""`det preview-search`: what a hyperparameter search would train."""

from __future__ import annotations

from pathlib import Path

import typer

from windlass.base.errors import InvalidConfig
from windlass.cli.config_file import naming, read_settings
from windlass.cli.connect import client_for
from windlass.cli.output.columns import Column, Table
from windlass.cli.output.text import print_json, print_yaml
from windlass.sdk.wire import Json


def preview(ctx: typer.Context, config_file: Path, *, as_json: bool) -> None:
    config = read_settings(config_file, [])
    if "searcher" not in config:
        raise InvalidConfig([f"{config_file}: the section `searcher` is missing"])
    with naming(config_file):
        summary = client_for(ctx).preview_search(config)
    if as_json:
        print_json(summary)
        return
    typer.echo(typer.style("Using search configuration:", fg="green"))
    print_yaml({key: value for key, value in summary["config"].items() if value is not None})
    TRIALS.print(summary["trials"])


def _training_time(trials: Json) -> str:
    unit = trials["unit"]
    return (
        "train to completion" if unit["maxLength"] else f"train for {unit['value']} {unit['name']}"
    )


TRIALS = Table(Column("Trials", "count"), Column("Training Time", _training_time))
