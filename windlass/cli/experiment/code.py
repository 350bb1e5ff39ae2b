"""`det experiment download-model-def` and `find-in-code`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.base.errors import InvalidState
from windlass.base.option_groups import with_groups
from windlass.cli.completion import ExperimentId
from windlass.cli.connect import client_for
from windlass.cli.output.columns import Column, Table, TableOptions
from windlass.cli.output.text import notice
from windlass.sdk.histories import Histories

app = typer.Typer()


@app.command("download-model-def")
def download_model_def(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    output_dir: Annotated[
        Path, typer.Option("-o", "--output-dir", help="Where to put the archive.")
    ] = Path(),
) -> None:
    """Save the files that an experiment was submitted with, as a .tgz archive."""
    content = Histories(client_for(ctx)).model_definition(experiment_id)
    if not content:
        raise InvalidState(f"Experiment {experiment_id} was submitted without files")
    output_dir.mkdir(parents=True, exist_ok=True)
    archive = output_dir / f"experiment_{experiment_id}_model_def.tgz"
    archive.write_bytes(content)
    typer.echo(archive)


@app.command("find-in-code")
@with_groups
def find_in_code(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    text: Annotated[str, typer.Argument(help="Part of a line.")],
    *,
    ignore_case: Annotated[
        bool, typer.Option("-i", "--ignore-case", help="Capital letters are small ones, too.")
    ] = False,
    out: TableOptions,
) -> None:
    """Find the lines of an experiment's files that contain a text."""
    found = Histories(client_for(ctx)).find_in_code(experiment_id, text, ignore_case=ignore_case)
    out.show(HITS, found["hits"])
    if found["total"] > len(found["hits"]):
        notice(f"These are {len(found['hits'])} of {found['total']} lines: give more of the line")


HITS = Table(Column("File", "path"), Column("Line", "line"), Column("Text", "text", below="text"))
