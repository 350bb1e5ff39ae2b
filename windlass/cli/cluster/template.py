"""`det template`: configurations that others lie over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.completion import TemplateName
from windlass.cli.config_file import naming, read_settings, tell_warnings
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.cli.interactive.launching import WorkspaceOption, workspace_id
from windlass.cli.output.columns import Column, JsonOption, Table, TableOptions
from windlass.cli.output.text import notice, print_json, print_yaml
from windlass.cli.output.times import local_time
from windlass.cli.places import YesOption, confirm_at_terminal
from windlass.sdk.wire import Json

app = command_group()
attributes = typer.Typer(no_args_is_help=True, help="Change a template.")
app.add_typer(attributes, name="set-value")

NewName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the template.")]
ConfigFile = Annotated[Path, typer.Argument(metavar="FILE", help="Configuration (YAML).")]
_NAME, _CONFIG = Column("Name", "name"), Column("Config", "config")


@app.command("list")
@with_groups
def list_templates(
    ctx: typer.Context,
    *,
    details: Annotated[
        bool, typer.Option("-d", "--details", help="Show their configurations, too.")
    ] = False,
    out: TableOptions,
) -> None:
    """List templates."""
    client = client_for(ctx)
    workspaces = {one["id"]: str(one["name"]) for one in client.workspaces()}
    columns = [
        _NAME,
        Column("Workspace", lambda one: workspaces.get(one["workspaceId"], one["workspaceId"])),
        Column("Owner", "username"),
        Column("Changed", "modifiedAt", local_time),
    ]
    out.show(Table(*columns, *([_CONFIG] if details else [])), client.templates().listed())


@app.command()
def describe(ctx: typer.Context, name: TemplateName, as_json: JsonOption = False) -> None:
    """Print the configuration of a template (YAML)."""
    template = client_for(ctx).templates().get(name)
    if as_json:
        print_json(template)
    else:
        print_yaml(template["config"])


@app.command()
def create(
    ctx: typer.Context,
    name: NewName,
    config_file: ConfigFile,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a template from a file."""
    client, config = client_for(ctx), read_settings(config_file, ())
    with naming(config_file):
        answer = client.templates().create(
            name, config, workspace_id=workspace_id(client, workspace)
        )
    _tell("Created", answer, as_json)


@app.command("set")
def set_template(
    ctx: typer.Context, name: NewName, config_file: ConfigFile, as_json: JsonOption = False
) -> None:
    """Create a template from a file, or replace the configuration of the one that is there."""
    client, config = client_for(ctx), read_settings(config_file, ())
    with naming(config_file):
        _tell("Set", client.templates().set(name, config), as_json)


@attributes.command("config")
def set_config(
    ctx: typer.Context, name: TemplateName, config_file: ConfigFile, as_json: JsonOption = False
) -> None:
    """Replace the configuration of a template. What was launched with it stays as it is."""
    client, config = client_for(ctx), read_settings(config_file, ())
    with naming(config_file):
        _tell("Updated", client.templates().set_config(name, config), as_json)


@attributes.command("name")
def set_name(
    ctx: typer.Context,
    name: TemplateName,
    new_name: Annotated[str, typer.Argument(help="New name.")],
) -> None:
    """Rename a template."""
    renamed = client_for(ctx).templates().rename(name, new_name)
    notice(f"Renamed template {name} to {renamed['name']}")


@app.command()
def remove(ctx: typer.Context, name: TemplateName, yes: YesOption = False) -> None:
    """Remove a template. What was launched with it stays as it is."""
    confirm_at_terminal(f"Remove template {name} for good?", yes)
    client_for(ctx).templates().remove(name)
    notice(f"Removed template {name}")


def _tell(done: str, answer: Json, as_json: bool) -> None:
    tell_warnings("template", answer)
    if as_json:
        print_json(answer["template"])
    else:
        notice(f"{done} template {answer['template']['name']}")
