"""`det config-policies`: what administrators fix for the work of others."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.config_file import naming, read_config
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.cli.interactive.launching import WorkspaceOption, workspace_id
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.text import notice, print_json, print_yaml
from windlass.cli.places import YesOption, confirm_at_terminal

app = command_group()


class Workload(StrEnum):
    EXPERIMENT = "experiment"
    TASKS = "tasks"

    @property
    def on_the_wire(self) -> str:
        return "NTSC" if self is Workload.TASKS else "EXPERIMENT"


WorkloadArgument = Annotated[
    Workload,
    typer.Argument(
        metavar="TYPE",
        help="experiment, or tasks: notebooks, TensorBoards, shells and commands.",
    ),
]


@app.command()
def describe(
    ctx: typer.Context,
    workload: WorkloadArgument,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the policy of the cluster, or of a workspace (YAML)."""
    client = client_for(ctx)
    policy = client.config_policies().get(workload.on_the_wire, workspace_id(client, workspace))
    if as_json:
        print_json(policy)
    elif policy:
        print_yaml(policy)
    else:
        notice(f"No config policy for {workload.value} of {_scope(workspace)}")


@app.command("set")
def set_policy(
    ctx: typer.Context,
    workload: WorkloadArgument,
    config_file: Annotated[Path, typer.Argument(metavar="FILE", help="The policy (YAML).")],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set the policy of the cluster, or of a workspace, and list what is not as it says. What runs goes on."""
    client, text = client_for(ctx), read_config(config_file, ())
    with naming(config_file):
        answer = client.config_policies().set(
            workload.on_the_wire, text, workspace_id(client, workspace)
        )
    if as_json:
        print_json(answer)
        return
    notice(f"Set the config policy for {workload.value} of {_scope(workspace)}")
    for line in answer["affected"]:
        notice(f"stays as it is: {line}")


@app.command()
def delete(
    ctx: typer.Context,
    workload: WorkloadArgument,
    workspace: WorkspaceOption = None,
    yes: YesOption = False,
) -> None:
    """Delete the policy of the cluster, or of a workspace."""
    confirm_at_terminal(
        f"Delete the config policy for {workload.value} of {_scope(workspace)} for good?", yes
    )
    client = client_for(ctx)
    client.config_policies().delete(workload.on_the_wire, workspace_id(client, workspace))
    notice(f"Deleted the config policy for {workload.value} of {_scope(workspace)}")


def _scope(workspace: str | None) -> str:
    return "the cluster" if workspace is None else f"workspace {workspace}"
