"""Workspaces and projects by their names, on the command line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from windlass.cli.find import find
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

WorkspaceName = Annotated[
    str, typer.Argument(metavar="WORKSPACE", help="Name of the workspace, or how it begins.")
]
ProjectName = Annotated[
    str, typer.Argument(metavar="PROJECT", help="Name of the project, or how it begins.")
]
AllOption = Annotated[bool, typer.Option("-a", "--all", help="Include archived ones.")]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]


def confirm_at_terminal(question: str, yes: bool) -> None:
    """For what programs have always done unasked: a person is asked before it, a program is not. Raises Abort."""
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True)


def workspace_of(client: Client, name: str) -> Json:
    """Raises NotFound, and Conflict for what may be several."""
    known = {str(one["name"]): one for one in client.workspaces()}
    return known[find("workspace", name, known)]


def project_of(client: Client, workspace: str, name: str) -> Json:
    """Raises NotFound, and Conflict for what may be several."""
    id_ = int(workspace_of(client, workspace)["id"])
    known = {str(one["name"]): one for one in client.projects().listed(id_)}
    return known[find("project", name, known)]
