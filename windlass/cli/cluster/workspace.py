"""`det workspace`: what projects, tasks and templates belong to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.cluster.project import PROJECTS
from windlass.cli.cluster.resource_pool import POOLS
from windlass.cli.config_file import naming, read_settings
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_json, print_yaml
from windlass.cli.places import AllOption, WorkspaceName, YesOption, workspace_of
from windlass.sdk.wire import Json

app = command_group()

ComputePoolOption = Annotated[
    str | None,
    typer.Option(
        "--default-compute-pool",
        help='Pool of work with slots that names none; "": that of the cluster.',
    ),
]
AuxPoolOption = Annotated[
    str | None,
    typer.Option(
        "--default-aux-pool",
        help='Pool of work without slots that names none; "": that of the cluster.',
    ),
]
StorageOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-storage-config",
        metavar="JSON",
        help="Checkpoint storage of its experiments; {}: that of the cluster.",
    ),
]
StorageFileOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint-storage-config-file",
        metavar="FILE",
        help="The same from a file (YAML or JSON).",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUserOptions:
    """As whom its tasks run on the agents' machines; what is not given stays."""

    agent_uid: Annotated[
        int | None, typer.Option(min=0, help="Run its tasks under this number of a user.")
    ] = None
    agent_user: Annotated[str | None, typer.Option(help="Name of that user.")] = None
    agent_gid: Annotated[
        int | None, typer.Option(min=0, help="Run its tasks under this number of a group.")
    ] = None
    agent_group: Annotated[str | None, typer.Option(help="Name of that group.")] = None

    def given(self) -> dict[str, Any]:
        """Keys of the request."""
        words = {"agent_uid": "agentUid", "agent_user": "agentUser"}
        words |= {"agent_gid": "agentGid", "agent_group": "agentGroup"}
        link = {words[key]: value for key, value in asdict(self).items() if value is not None}
        return {"agentUserGroup": link} if link else {}


_TABLE = Table(
    Column("Name", "name"),
    Column("Owner", "username"),
    Column("Projects", "numProjects"),
    Column("Experiments", "numExperiments"),
    Column("Archived", "archived"),
    Column("Id", "id"),
)
MEMBERS = Table(Column("Holder", "holder"), Column("Role", "role"))


@app.command("list")
@with_groups
def list_workspaces(
    ctx: typer.Context, *, everything: AllOption = False, out: TableOptions
) -> None:
    """List workspaces."""
    found = client_for(ctx).workspace_calls().listed(archived=None if everything else False)
    out.show(_TABLE, found)


@app.command("list-projects")
@with_groups
def list_projects(
    ctx: typer.Context, name: WorkspaceName, *, everything: AllOption = False, out: TableOptions
) -> None:
    """List the projects of a workspace."""
    client = client_for(ctx)
    id_ = int(workspace_of(client, name)["id"])
    out.show(PROJECTS, client.projects().listed(id_, archived=None if everything else False))


@app.command("list-pools")
@with_groups
def list_pools(ctx: typer.Context, name: WorkspaceName, *, out: TableOptions) -> None:
    """List the resource pools that work of a workspace may use."""
    client = client_for(ctx)
    usable = client.workspace_calls().pools(int(workspace_of(client, name)["id"]))
    out.show(POOLS, [pool for pool in client.resource_pools() if pool["name"] in usable])


@app.command("list-members")
@with_groups
def list_members(ctx: typer.Context, name: WorkspaceName, *, out: TableOptions) -> None:
    """List who holds a role in a workspace. Roles in the whole cluster: `det rbac describe-role`."""
    client = client_for(ctx)
    found = client.roles().in_workspace(int(workspace_of(client, name)["id"]))
    names = {
        ("userId", one["id"]): f"user {one['username']}" for one in found["usersAssignedDirectly"]
    }
    names |= {("groupId", one["groupId"]): f"group {one['name']}" for one in found["groups"]}
    rows = [
        {"role": role["role"]["name"], "holder": names[key, given[key]]}
        for role in found["assignments"]
        for key, kind in (("groupId", "group"), ("userId", "user"))
        for given in role[f"{kind}RoleAssignments"]
    ]
    out.show(MEMBERS, rows)


@app.command()
def describe(ctx: typer.Context, name: WorkspaceName, as_json: JsonOption = False) -> None:
    """Show a workspace."""
    found = workspace_of(client_for(ctx), name)
    print_json(found) if as_json else print_yaml(found)


@app.command()
@with_groups
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the workspace.")],
    *,
    compute_pool: ComputePoolOption = None,
    aux_pool: AuxPoolOption = None,
    storage: StorageOption = None,
    storage_file: StorageFileOption = None,
    as_json: JsonOption = False,
    agent_user: AgentUserOptions,
) -> None:
    """Create a workspace, which is yours."""
    more = _given(compute_pool, aux_pool, storage, storage_file) | agent_user.given()
    with naming(storage_file):
        made = client_for(ctx).workspace_calls().create(name, **more)
    _tell("Created", made, as_json)


@app.command()
@with_groups
def edit(
    ctx: typer.Context,
    name: WorkspaceName,
    new_name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    *,
    compute_pool: ComputePoolOption = None,
    aux_pool: AuxPoolOption = None,
    storage: StorageOption = None,
    storage_file: StorageFileOption = None,
    as_json: JsonOption = False,
    agent_user: AgentUserOptions,
) -> None:
    """Rename a workspace, or change what its work is given."""
    changes = _given(compute_pool, aux_pool, storage, storage_file) | agent_user.given()
    if new_name is not None:
        changes["name"] = new_name
    if not changes:
        raise InvalidArgument("give --name, or another option that says what to change")
    client = client_for(ctx)
    id_ = int(workspace_of(client, name)["id"])
    with naming(storage_file):
        changed = client.workspace_calls().edit(id_, changes)
    _tell("Changed", changed, as_json)


@app.command()
def archive(ctx: typer.Context, name: WorkspaceName) -> None:
    """Take nothing new into a workspace; what runs in it goes on."""
    client = client_for(ctx)
    client.workspace_calls().set_archived(int(workspace_of(client, name)["id"]), True)
    notice(f"Archived workspace {name}")


@app.command()
def unarchive(ctx: typer.Context, name: WorkspaceName) -> None:
    """Use an archived workspace again."""
    client = client_for(ctx)
    client.workspace_calls().set_archived(int(workspace_of(client, name)["id"]), False)
    notice(f"Unarchived workspace {name}")


@app.command()
def delete(ctx: typer.Context, name: WorkspaceName, yes: YesOption = False) -> None:
    """Kill the tasks of a workspace, and delete it with its projects, experiments and templates."""
    client = client_for(ctx)
    found = workspace_of(client, name)
    if not yes:
        inside = f"{found['numProjects']} projects and {found['numExperiments']} experiments"
        typer.confirm(f"Delete workspace {found['name']} with {inside} for good?", abort=True)
    gone = client.workspace_calls().delete(int(found["id"]))
    notice(f"{'Deleted' if gone else 'Deleting'} workspace {found['name']}")


def _given(
    compute_pool: str | None, aux_pool: str | None, storage: str | None, file: Path | None
) -> dict[str, Any]:
    """Keys of the request. Raises InvalidArgument, InvalidConfig."""
    if storage is not None and file is not None:
        raise InvalidArgument(
            "give --checkpoint-storage-config or --checkpoint-storage-config-file"
        )
    section = read_settings(file, ()) if file is not None else _section(storage)
    given = {
        "defaultComputePool": compute_pool,
        "defaultAuxPool": aux_pool,
        "checkpointStorageConfig": section,
    }
    return {key: value for key, value in given.items() if value is not None}


def _section(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        section = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"--checkpoint-storage-config: not JSON: {error}") from None
    if not isinstance(section, dict):
        raise InvalidArgument("--checkpoint-storage-config: expected a JSON object")
    return section


def _tell(done: str, workspace: Json, as_json: bool) -> None:
    notice(f"{done} workspace {workspace['name']}")
    if as_json:
        print_json(workspace)
