"""`windlass hpc`: its verbs come with the extra `hpc`."""

from __future__ import annotations

import typer

from windlass.cli.groups import OperatorGroup


class HpcGroup(OperatorGroup):
    entry_point = "hpc"


app = typer.Typer(
    cls=HpcGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Run a private master on a Slurm or PBS cluster, without root.",
)


@app.callback()
def group() -> None:
    """Run a private master on a Slurm or PBS cluster, without root."""
