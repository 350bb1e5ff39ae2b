"""`det tensorboard`: TensorBoard over experiments and trials."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.interactive.kinds import TENSORBOARD
from windlass.cli.interactive.launching import DetachOption, LaunchOptions, told
from windlass.cli.interactive.verbs import add_verbs
from windlass.cli.interactive.web import NoBrowserOption, add_open, show

app = TENSORBOARD.group()


@app.command()
@with_groups
def start(
    ctx: typer.Context,
    experiment_ids: Annotated[
        list[int] | None, typer.Argument(help="Show the trials of these experiments.")
    ] = None,
    *,
    trial_ids: Annotated[
        list[int] | None,
        typer.Option("-t", "--trial-ids", help="Show this trial; may be given more than once."),
    ] = None,
    given: LaunchOptions,
    no_browser: NoBrowserOption = False,
    detach: DetachOption = False,
) -> None:
    """Start TensorBoard over experiments or trials, wait until it serves, print its URL and open it.

    `det tensorboard start 12 13`, or `det tensorboard start -t 101 -t 102`. Ctrl-C leaves it as it is.
    """
    if not (experiment_ids or trial_ids):
        raise InvalidArgument(
            "Nothing to show: give ids of experiments (det tensorboard start 12), or of trials (-t 101)"
        )
    client = client_for(ctx)
    ids = {"experimentIds": experiment_ids or [], "trialIds": trial_ids or []}
    answer = given.launch(client, TENSORBOARD, given.document(), **ids)
    if detach:
        typer.echo(answer["tensorboard"]["id"])
    else:
        show(client, TENSORBOARD, told(TENSORBOARD, answer), no_browser=no_browser)


add_open(app, TENSORBOARD)
add_verbs(app, TENSORBOARD)
