"""`det notebook`: JupyterLab on a machine of the cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.interactive.kinds import NOTEBOOK
from windlass.cli.interactive.launching import DetachOption, LaunchOptions, told
from windlass.cli.interactive.verbs import add_verbs
from windlass.cli.interactive.web import NoBrowserOption, add_open, show
from windlass.cli.output.text import print_yaml

app = NOTEBOOK.group()


@app.command()
@with_groups
def start(
    ctx: typer.Context,
    *,
    given: LaunchOptions,
    preview: Annotated[
        bool,
        typer.Option("--preview", help="Print the whole configuration (YAML), and start nothing."),
    ] = False,
    no_browser: NoBrowserOption = False,
    detach: DetachOption = False,
) -> None:
    """Start JupyterLab, wait until it serves, print its URL and open it. Ctrl-C leaves it as it is.

    `det notebook start --config resources.slots=0 -c .` starts one without a GPU, with the files of this directory.
    """
    client = client_for(ctx)
    answer = given.launch(client, NOTEBOOK, given.document(), preview=preview or None)
    if preview:
        print_yaml(answer["config"])
    elif detach:
        typer.echo(answer["notebook"]["id"])
    else:
        show(client, NOTEBOOK, told(NOTEBOOK, answer), no_browser=no_browser)


add_open(app, NOTEBOOK)
add_verbs(app, NOTEBOOK)
