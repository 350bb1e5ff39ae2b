"""`det master`: what users see of the master. `windlass master run` comes from the extra `master`."""

from __future__ import annotations

import os

import typer

from windlass.cli.connect import settings_of
from windlass.cli.groups import OperatorGroup
from windlass.cli.output import JsonOption, print_fields, print_json
from windlass.sdk.client import Client
from windlass.sdk.credentials import master_url, open_session


class MasterGroup(OperatorGroup):
    entry_point = "master"


app = typer.Typer(
    cls=MasterGroup, no_args_is_help=True, add_completion=False, help="Show the master; run one."
)


@app.callback()
def group() -> None:
    """Show the master; run one."""


@app.command()
def info(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show the version and the identity of the master. Needs no login."""
    with open_session(master_url(settings_of(ctx).master, os.environ), os.environ) as session:
        content = Client(session).info()
    if as_json:
        print_json(content)
    else:
        print_fields(sorted(content.items()))
