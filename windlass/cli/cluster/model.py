"""`det model`: checkpoints that got a name and a number in the model registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument, NotFound
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.experiment.copies import CopyOptions, OutputDirOption, size_of
from windlass.cli.find import find
from windlass.cli.groups import command_group
from windlass.cli.interactive.launching import WorkspaceOption, workspace_id
from windlass.cli.metadata import RemoveOption, SetOption, changed
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions, joined
from windlass.cli.output.text import notice, print_json, print_yaml
from windlass.cli.output.times import local_time
from windlass.cli.places import AllOption, YesOption, workspace_of
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

app = command_group()

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of the model, how it begins, or its id.")
]
Number = Annotated[int, typer.Argument(metavar="VERSION", help="Number of the version.")]
DescriptionOption = Annotated[str | None, typer.Option(help="What it is for.")]
NotesOption = Annotated[str | None, typer.Option(help="Longer notes.")]
LabelOption = Annotated[
    list[str] | None, typer.Option("--label", help="Give it this label; may be repeated.")
]
CommentOption = Annotated[str | None, typer.Option(help="Comment on the version.")]
_VERSIONS = Table(
    Column("Version", "version"),
    Column("Name", "name"),
    Column("Experiment", "checkpoint.training.experimentId"),
    Column("Trial", "checkpoint.training.trialId"),
    Column("Steps", lambda one: (one["checkpoint"].get("metadata") or {}).get("steps_completed")),
    Column("Metric", "checkpoint.training.searcherMetric"),
    Column("Bytes", lambda one: size_of(one["checkpoint"])),
    Column("Registered by", "username"),
    Column("Registered", "creationTime", local_time),
    Column("Checkpoint", "checkpoint.uuid", is_id=True),
    give_way=("Bytes", "Registered by", "Experiment"),
)


@app.command("list")
@with_groups
def list_models(
    ctx: typer.Context,
    *,
    workspace: WorkspaceOption = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="Only those with this label, or one of several."),
    ] = None,
    everything: AllOption = False,
    out: TableOptions,
) -> None:
    """List models."""
    client = client_for(ctx)
    workspaces = {one["id"]: str(one["name"]) for one in client.workspaces()}
    found = client.models().listed(
        labels=label or (),
        archived=None if everything else False,
        workspace_id=workspace_id(client, workspace),
    )
    table = Table(
        Column("Name", "name"),
        Column("Versions", "numVersions"),
        Column("Labels", "labels", joined),
        Column("Workspace", lambda one: workspaces.get(one["workspaceId"], one["workspaceId"])),
        Column("Owner", "username"),
        Column("Changed", "lastUpdatedTime", local_time),
        Column("Archived", "archived"),
        Column("Id", "id"),
    )
    out.show(table, found)


@app.command()
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the model.")],
    workspace: WorkspaceOption = None,
    description: DescriptionOption = None,
    notes: NotesOption = None,
    label: LabelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a model, which is yours."""
    client = client_for(ctx)
    made = client.models().create(
        name,
        workspaceId=workspace_id(client, workspace),
        description=description,
        notes=notes,
        labels=label,
    )
    _tell("Created", made, as_json)


@app.command()
def describe(
    ctx: typer.Context,
    name: ModelName,
    version: Annotated[int | None, typer.Option(help="Show this version of it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a model, or a version of it."""
    client = client_for(ctx)
    found = _model(client, name)
    if version is not None:
        found = client.models().version(_id(found), version) or {}
    print_json(found) if as_json else print_yaml(found)


@app.command()
@with_groups
def list_versions(ctx: typer.Context, name: ModelName, *, out: TableOptions) -> None:
    """List the versions of a model, the newest first."""
    client = client_for(ctx)
    out.show(_VERSIONS, client.models().versions(_id(_model(client, name))))


@app.command()
def register_version(
    ctx: typer.Context,
    name: ModelName,
    uuid: Annotated[str, typer.Argument(help="UUID of a completed checkpoint.")],
    version_name: Annotated[str | None, typer.Option("--name", help="Name of the version.")] = None,
    comment: CommentOption = None,
    label: LabelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a checkpoint the next version of a model. It is not deleted as long as it is one."""
    client = client_for(ctx)
    made = client.models().register(
        _id(_model(client, name)), uuid, name=version_name, comment=comment, labels=label
    )
    _tell_version("Registered", made, as_json)


@app.command()
def edit(
    ctx: typer.Context,
    name: ModelName,
    new_name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    description: DescriptionOption = None,
    notes: NotesOption = None,
    label: LabelOption = None,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Take all labels away.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Change name, description, notes or labels of a model. Labels replace those that it has."""
    client = client_for(ctx)
    if label and no_labels:
        raise InvalidArgument("--label and --no-labels: only one of them can be given")
    changes = {
        "name": new_name,
        "description": description,
        "notes": notes,
        "labels": [] if no_labels else label,
    }
    _tell("Changed", client.models().edit(_id(_model(client, name)), changes), as_json)


@app.command()
def edit_version(
    ctx: typer.Context,
    name: ModelName,
    number: Number,
    version_name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    comment: CommentOption = None,
    notes: NotesOption = None,
    label: LabelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change name, comment, notes or labels of a version. Labels replace those that it has."""
    client = client_for(ctx)
    changes = {"name": version_name, "comment": comment, "notes": notes, "labels": label}
    done = client.models().edit_version(_id(_model(client, name)), number, changes)
    _tell_version("Changed", done, as_json)


@app.command()
def metadata(
    ctx: typer.Context, name: ModelName, change: SetOption = None, remove: RemoveOption = None
) -> None:
    """Show or change the metadata of a model."""
    client = client_for(ctx)
    found = _model(client, name)
    known: dict[str, Any] = dict(found["metadata"])
    if change or remove:
        new = changed(known, change, remove, what=f"Model {found['name']}")
        known = client.models().edit(_id(found), {"metadata": new})["metadata"]
    print_json(known)


@app.command()
def move(
    ctx: typer.Context,
    name: ModelName,
    to: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKSPACE", help="Name of the workspace, or how it begins.", show_default=False
        ),
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Move a model to another workspace, which is named by the argument or by -w."""
    if (to is None) == (workspace is None):
        raise InvalidArgument("Give the workspace: as an argument, or with -w")
    client = client_for(ctx)
    target = workspace_of(client, str(to or workspace))
    moved = client.models().edit(_id(_model(client, name)), {"workspaceId": target["id"]})
    notice(f"Moved model {moved['name']} to workspace {target['name']}")


@app.command()
def archive(ctx: typer.Context, name: ModelName) -> None:
    """Take no new versions of a model, and no changes."""
    client = client_for(ctx)
    found = _model(client, name)
    client.models().set_archived(_id(found), True)
    notice(f"Archived model {found['name']}")


@app.command()
def unarchive(ctx: typer.Context, name: ModelName) -> None:
    """Use an archived model again."""
    client = client_for(ctx)
    found = _model(client, name)
    client.models().set_archived(_id(found), False)
    notice(f"Unarchived model {found['name']}")


@app.command()
def delete(ctx: typer.Context, name: ModelName, yes: YesOption = False) -> None:
    """Delete a model with its versions. Their checkpoints stay, but are not protected any more."""
    client = client_for(ctx)
    found = _model(client, name)
    if not yes:
        inside = f"{found['numVersions']} versions"
        typer.confirm(f"Delete model {found['name']} with {inside} for good?", abort=True)
    client.models().delete(_id(found))
    notice(f"Deleted model {found['name']}")


@app.command()
def delete_version(
    ctx: typer.Context, name: ModelName, number: Number, yes: YesOption = False
) -> None:
    """Delete a version of a model. Its checkpoint stays, but is not protected any more."""
    client = client_for(ctx)
    found = _model(client, name)
    if not yes:
        typer.confirm(f"Delete version {number} of model {found['name']} for good?", abort=True)
    client.models().delete_version(_id(found), number)
    notice(f"Deleted version {number} of model {found['name']}")


@app.command()
@with_groups
def download(
    ctx: typer.Context,
    name: ModelName,
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="VERSION", help="Its number. Default: the newest.", show_default=False
        ),
    ] = None,
    *,
    output_dir: OutputDirOption = None,
    as_json: JsonOption = False,
    copy: CopyOptions,
) -> None:
    """Copy a version of a model to this machine. Run it again to go on after an interruption."""
    client = client_for(ctx)
    found = _model(client, name)
    version = client.models().version(_id(found), number)
    if version is None:
        raise NotFound("version of model", found["name"], ": it has none yet")
    checkpoint = version["checkpoint"]
    target = output_dir or Path("checkpoints") / str(checkpoint["uuid"])
    copy.fetch(client, checkpoint, target)
    if as_json:
        print_json({"path": str(target), "modelVersion": version})
    else:
        copy.tell(checkpoint, target)


def _model(client: Client, word: str) -> Json:
    """By its name or its id, or by how its name begins. Raises NotFound, and Conflict for what may be several."""
    try:
        return client.models().get(word)
    except NotFound:
        known = {str(one["name"]): one for one in client.models().listed(name=word)}
        return known[find("model", word, known)]


def _id(model: Json) -> str:
    """By which it is found, even if somebody renames it now."""
    return str(model["id"])


def _tell(done: str, model: Json, as_json: bool) -> None:
    notice(f"{done} model {model['name']}")
    if as_json:
        print_json(model)


def _tell_version(done: str, version: Json, as_json: bool) -> None:
    notice(f"{done} version {version['version']} of model {version['model']['name']}")
    if as_json:
        print_json(version)
