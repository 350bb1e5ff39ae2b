"""`det command`: run one program on the cluster, watch and steer it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.cli.command_watch import full_ids, print_task_logs, short_ids, watch
from windlass.cli.config_file import read_settings
from windlass.cli.connect import client_for
from windlass.cli.groups import AliasedGroup
from windlass.cli.output import (
    WAITING,
    CsvOption,
    JsonOption,
    local_time,
    notice,
    print_fields,
    print_json,
    print_rows,
    state_name,
    waiting_text,
)
from windlass.cli.trial import HeadOption, TailOption, check_log_options

app = typer.Typer(
    cls=AliasedGroup, no_args_is_help=True, add_completion=False, help="Run single commands."
)
attributes = typer.Typer(no_args_is_help=True, help="Change a command.")
app.add_typer(attributes, name="set")

CommandId = Annotated[str, typer.Argument(help="Command id, or the beginning of one.")]
SortKey = Literal[
    "id", "username", "description", "state", "exitStatus", "resourcePool", "startTime"
]

_WARNINGS = {
    "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED": (
        "the command asks for more slots than the cluster has right now: it waits for capacity"
    )
}


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    ctx: typer.Context,
    entrypoint: Annotated[
        list[str] | None,
        typer.Argument(help="Program and arguments; one quoted string is for the shell."),
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config-file", help="Command configuration (YAML).")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Override: resources.slots=2")
    ] = None,
    context: Annotated[
        Path | None,
        typer.Option("-c", "--context", help="Directory whose content goes with the command."),
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("-i", "--include", help="Further files or directories.")
    ] = None,
    volume: Annotated[
        list[str] | None, typer.Option("-v", "--volume", help="Mount: /host/path:/task/path")
    ] = None,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Print the id and leave.")] = False,
) -> None:
    """Run a program and show its output. The exit code is 0 only if the command succeeded."""
    from windlass.sdk.context_dir import pack_directory

    document = _with_volumes(read_settings(config_file, config or []), volume or [])
    if entrypoint:
        document["entrypoint"] = entrypoint
    if not document.get("entrypoint"):
        raise InvalidArgument(
            "nothing to run: det cmd run [OPTIONS] PROGRAM [ARGUMENTS], or an entrypoint in --config-file"
        )
    packed = pack_directory(context, include or [])
    for line in packed.notices:
        notice(line)
    client = client_for(ctx)
    answer = client.run_command(document, packed.files)
    for warning in answer.get("warnings") or []:
        notice(f"warning: {_WARNINGS.get(warning, warning)}")
    command = answer["command"]
    if detach:
        typer.echo(command["id"])
        return
    notice(f"Launched command {command['id']} ({command['description']})")
    if not watch(client, str(command["id"])):
        raise typer.Exit(1)


@app.command("list")
def list_commands(
    ctx: typer.Context,
    everybody: Annotated[bool, typer.Option("-a", "--all", help="Everybody's.")] = False,
    sort_by: Annotated[SortKey, typer.Option("--sort-by", help="Order of the rows.")] = "startTime",
    order_by: Annotated[
        Literal["asc", "desc"], typer.Option("--order-by", help="Ascending or descending.")
    ] = "asc",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only the ids.")] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Your commands."""
    client = client_for(ctx)
    commands = client.commands(user=None if everybody else str(client.me().get("username")))
    commands.sort(key=lambda c: str(c.get(sort_by) or ""), reverse=order_by == "desc")
    if as_json:
        print_json(commands)
    elif quiet:
        for command in commands:
            typer.echo(command["id"])
    else:
        headers = ["ID", "Owner", "Description", "State", "Exit status", "Pool", "Started", WAITING]
        ids = [str(command["id"]) for command in commands]
        if sys.stdout.isatty() and not as_csv:
            ids = short_ids(ids)
        rows = [_row(id_, command) for id_, command in zip(ids, commands, strict=True)]
        print_rows(headers, rows, as_csv=as_csv)


@app.command()
def describe(ctx: typer.Context, command_id: CommandId, as_json: JsonOption = False) -> None:
    """One command."""
    client = client_for(ctx)
    answer = client.command(full_ids(client, [command_id])[0])
    if as_json:
        print_json(answer)
        return
    command, config = answer["command"], answer.get("config") or {}
    resources = config.get("resources") or {}
    print_fields(
        [
            ("command", command.get("id")),
            ("description", command.get("description")),
            ("entrypoint", config.get("entrypoint")),
            ("owner", command.get("username")),
            ("job", command.get("jobId")),
            ("state", state_name(command.get("state"))),
            ("waiting for", waiting_text(command)),
            ("exit status", command.get("exitStatus")),
            ("pool", command.get("resourcePool")),
            ("slots", resources.get("slots")),
            ("priority", resources.get("priority")),
            ("started", local_time(command.get("startTime"))),
            ("ended", local_time(command.get("endTime"))),
        ]
    )


@app.command("config")
def show_config(ctx: typer.Context, command_id: CommandId, as_json: JsonOption = False) -> None:
    """The whole configuration of a command, with every default (YAML)."""
    client = client_for(ctx)
    document = client.command(full_ids(client, [command_id])[0])["config"]
    if as_json:
        print_json(document)
        return
    import yaml

    typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


@app.command()
def logs(
    ctx: typer.Context,
    command_id: CommandId,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the command ends.")
    ] = False,
    head: HeadOption = None,
    tail: TailOption = None,
    as_json: JsonOption = False,
) -> None:
    """The output of a command."""
    check_log_options(follow, head, tail)
    client = client_for(ctx)
    task_id = full_ids(client, [command_id])[0]
    print_task_logs(client, task_id, follow=follow, head=head, tail=tail, as_json=as_json)


@app.command()
def kill(
    ctx: typer.Context,
    command_ids: Annotated[
        list[str], typer.Argument(help="Command ids, or the beginnings of them.")
    ],
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Go on with the others when one fails.")
    ] = False,
) -> None:
    """End commands at once."""
    client = client_for(ctx)
    for task_id in full_ids(client, command_ids):
        try:
            client.kill_command(task_id)
        except WindlassError as problem:
            if not force:
                raise
            notice(f"skipped {task_id}: {problem}")
        else:
            notice(f"killed command {task_id}")


@attributes.command()
def priority(
    ctx: typer.Context,
    command_id: CommandId,
    number: Annotated[int, typer.Argument(metavar="PRIORITY", min=1, max=99)],
) -> None:
    """Set the priority of a command; 1 is the strongest."""
    client = client_for(ctx)
    task_id = full_ids(client, [command_id])[0]
    client.set_command_priority(task_id, number)
    notice(f"set priority of command {task_id} to {number}")


def _with_volumes(document: dict[str, Any], volumes: list[str]) -> dict[str, Any]:
    mounts = []
    for volume in volumes:
        host, separator, container = volume.partition(":")
        if not (separator and host and container):
            raise InvalidArgument(f"--volume {volume}: write it as /host/path:/task/path")
        mounts.append({"host_path": host, "container_path": container})
    if not mounts:
        return document
    given = document.get("bind_mounts") or []
    if not isinstance(given, list):
        raise InvalidArgument("bind_mounts must be a list of mounts for --volume to add to")
    return {**document, "bind_mounts": [*given, *mounts]}


def _row(id_: str, command: dict[str, Any]) -> list[Any]:
    return [
        id_,
        command.get("username"),
        command.get("description"),
        state_name(command.get("state")),
        command.get("exitStatus"),
        command.get("resourcePool"),
        local_time(command.get("startTime")),
        waiting_text(command),
    ]
