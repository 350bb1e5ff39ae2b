"""`det project`: what experiments belong to. Each is named by its workspace and its own name."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.experiment.show import EXPERIMENTS
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_json, print_yaml
from windlass.cli.output.times import local_time
from windlass.cli.places import (
    AllOption,
    ProjectName,
    WorkspaceName,
    YesOption,
    project_of,
    workspace_of,
)
from windlass.sdk.wire import Json

app = command_group()

KeyOption = Annotated[
    str | None,
    typer.Option(help="1 to 5 letters and digits, which the local ids of runs begin with."),
]
PROJECTS = Table(
    Column("Name", "name"),
    Column("Key", "key"),
    Column("Owner", "username"),
    Column("Experiments", "numExperiments"),
    Column("Running", "numActiveExperiments"),
    Column("Newest", "lastExperimentStartedAt", local_time),
    Column("Archived", "archived"),
    Column("Id", "id"),
)


@app.command("list")
@with_groups
def list_projects(
    ctx: typer.Context,
    workspace: WorkspaceName,
    *,
    everything: AllOption = False,
    out: TableOptions,
) -> None:
    """List the projects of a workspace."""
    client = client_for(ctx)
    id_ = int(workspace_of(client, workspace)["id"])
    out.show(PROJECTS, client.projects().listed(id_, archived=None if everything else False))


@app.command("list-experiments")
@with_groups
def list_experiments(
    ctx: typer.Context,
    workspace: WorkspaceName,
    name: ProjectName,
    *,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="Include other users' and archived ones.")
    ] = False,
    out: TableOptions,
) -> None:
    """List your experiments in a project."""
    client = client_for(ctx)
    found = client.experiments(
        user=None if everybody else str(client.me()["username"]),
        archived=None if everybody else False,
        newest=out.limit,
        configs=out.as_json and not out.columns,
        project_id=int(project_of(client, workspace, name)["id"]),
    )
    out.show(EXPERIMENTS, found)


@app.command()
def describe(
    ctx: typer.Context, workspace: WorkspaceName, name: ProjectName, as_json: JsonOption = False
) -> None:
    """Show a project."""
    found = project_of(client_for(ctx), workspace, name)
    print_json(found) if as_json else print_yaml(found)


@app.command()
def create(
    ctx: typer.Context,
    workspace: WorkspaceName,
    name: Annotated[str, typer.Argument(help="Name of the project.")],
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a project, which is yours."""
    client = client_for(ctx)
    id_ = int(workspace_of(client, workspace)["id"])
    _tell("Created", client.projects().create(id_, name, description=description, key=key), as_json)


@app.command()
def edit(
    ctx: typer.Context,
    workspace: WorkspaceName,
    name: ProjectName,
    new_name: Annotated[str | None, typer.Option("--name", "--new_name", help="New name.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change name, description or key of a project."""
    client = client_for(ctx)
    id_ = int(project_of(client, workspace, name)["id"])
    changes = {"name": new_name, "description": description, "key": key}
    _tell("Changed", client.projects().edit(id_, changes), as_json)


@app.command()
def move(
    ctx: typer.Context,
    workspace: WorkspaceName,
    name: ProjectName,
    to: Annotated[str, typer.Argument(metavar="TO", help="Name of the other workspace.")],
) -> None:
    """Move a project with its experiments to another workspace."""
    client = client_for(ctx)
    target = workspace_of(client, to)
    client.projects().move(int(project_of(client, workspace, name)["id"]), int(target["id"]))
    notice(f"Moved project {name} to workspace {target['name']}")


@app.command()
def archive(ctx: typer.Context, workspace: WorkspaceName, name: ProjectName) -> None:
    """Take nothing new into a project; what runs in it goes on."""
    client = client_for(ctx)
    client.projects().set_archived(int(project_of(client, workspace, name)["id"]), True)
    notice(f"Archived project {name}")


@app.command()
def unarchive(ctx: typer.Context, workspace: WorkspaceName, name: ProjectName) -> None:
    """Use an archived project again."""
    client = client_for(ctx)
    client.projects().set_archived(int(project_of(client, workspace, name)["id"]), False)
    notice(f"Unarchived project {name}")


@app.command()
def delete(
    ctx: typer.Context, workspace: WorkspaceName, name: ProjectName, yes: YesOption = False
) -> None:
    """Delete a project with its experiments, which must have ended."""
    client = client_for(ctx)
    found = project_of(client, workspace, name)
    if not yes:
        inside = f"{found['numExperiments']} experiments"
        typer.confirm(f"Delete project {found['name']} with {inside} for good?", abort=True)
    gone = client.projects().delete(int(found["id"]))
    notice(f"{'Deleted' if gone else 'Deleting'} project {found['name']}")


def _tell(done: str, project: Json, as_json: bool) -> None:
    notice(f"{done} project {project['name']} ({project['key']})")
    if as_json:
        print_json(project)
