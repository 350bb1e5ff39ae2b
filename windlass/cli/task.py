"""`det task`: the log of any task by its id, those that delete checkpoints included."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.cli.command_watch import print_task_logs
from windlass.cli.connect import client_for
from windlass.cli.groups import AliasedGroup
from windlass.cli.output import JsonOption, RawOption
from windlass.cli.trial import HeadOption, TailOption, check_log_options

app = typer.Typer(
    cls=AliasedGroup, no_args_is_help=True, add_completion=False, help="Show the logs of tasks."
)


@app.callback()
def tasks() -> None:
    """Show the logs of tasks."""


@app.command()
def logs(
    ctx: typer.Context,
    task_id: Annotated[str, typer.Argument(help="Task id.")],
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines until the task ends.")
    ] = False,
    head: HeadOption = None,
    tail: TailOption = None,
    as_json: JsonOption = False,
    raw: RawOption = False,
) -> None:
    """Print the log of a task, such as one that deletes checkpoints."""
    check_log_options(follow, head, tail)
    print_task_logs(
        client_for(ctx), task_id, follow=follow, head=head, tail=tail, as_json=as_json, raw=raw
    )
