"""`det command`: run one program on the cluster, watch and control it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.base.option_groups import with_groups
from windlass.cli.completion import complete_commands
from windlass.cli.config_file import naming, read_settings, tell_warnings
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.cli.job.words import full_id, in_names
from windlass.cli.output.columns import (
    STARTED,
    STATE,
    WAITING,
    Column,
    JsonOption,
    Table,
    TableOptions,
)
from windlass.cli.output.follow import FIRST_LOOK_S, LogView, follow, patiently
from windlass.cli.output.progress import upload
from windlass.cli.output.text import (
    notice,
    print_fields,
    print_json,
    print_yaml,
    state_name,
    waiting_text,
)
from windlass.cli.output.times import UtcOption, local_time
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

app = command_group()
attributes = typer.Typer(no_args_is_help=True, help="Change settings of a command.")
app.add_typer(attributes, name="set")

CommandId = Annotated[
    str,
    typer.Argument(help="Command id, or its first characters.", autocompletion=complete_commands),
]
SortKey = Literal[
    "id", "username", "description", "state", "exitStatus", "resourcePool", "startTime"
]
SUCCESS = "success"
"""The exit status of a command that succeeded."""
DETACHED = 130
"""The exit code of a program that was interrupted, as shells have it."""


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    ctx: typer.Context,
    entrypoint: Annotated[
        list[str] | None,
        typer.Argument(help="Program and arguments; one quoted string is run by a shell."),
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config-file", help="Command configuration (YAML).")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Override a key: resources.slots=2")
    ] = None,
    context: Annotated[
        Path | None,
        typer.Option(
            "-c", "--context", help="Upload this directory into the command's working directory."
        ),
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option("-i", "--include", help="Upload a further file or directory."),
    ] = None,
    volume: Annotated[
        list[str] | None,
        typer.Option("-v", "--volume", help="Mount a host path: /host/path:/task/path"),
    ] = None,
    detach: Annotated[
        bool, typer.Option("-d", "--detach", help="Print the id and return at once.")
    ] = False,
) -> None:
    """Run a program and print its output. The exit code is 0 only if the command succeeded."""
    from windlass.sdk.context_dir import pack_directory

    document = _with_volumes(read_settings(config_file, config or []), volume or [])
    if entrypoint:
        document["entrypoint"] = entrypoint
    if not document.get("entrypoint") and config_file is None:
        raise InvalidArgument(
            "Nothing to run: give a program (det cmd run [OPTIONS] PROGRAM [ARGUMENTS]), "
            "or an entrypoint in --config-file"
        )
    packed = pack_directory(context, include or [])
    for line in packed.notices:
        notice(line)
    client = client_for(ctx)
    with naming(config_file), upload(client.session, "Uploading files"):
        answer = client.run_command(document, packed.files)
    tell_warnings("command", answer)
    command = answer["command"]
    if detach:
        typer.echo(command["id"])
        return
    notice(f"Launched command {command['id']} ({command['description']})")
    if not _watch(client, str(command["id"])):
        raise typer.Exit(1)


@app.command("list")
@with_groups
def list_commands(
    ctx: typer.Context,
    *,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="Include other users' commands.")
    ] = False,
    sort_by: Annotated[
        SortKey, typer.Option("--sort-by", help="Sort by this field.")
    ] = "startTime",
    order_by: Annotated[
        Literal["asc", "desc"], typer.Option("--order-by", help="Sort ascending or descending.")
    ] = "asc",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print only the ids.")] = False,
    out: TableOptions,
) -> None:
    """List your commands."""
    client = client_for(ctx)
    commands = client.commands(user=None if everybody else str(client.me().get("username")))
    commands.sort(key=lambda c: str(c.get(sort_by) or ""), reverse=order_by == "desc")
    if quiet and not out.as_json:
        for command in commands[: out.limit]:
            typer.echo(command["id"])
    else:
        out.show(COMMANDS, commands)


@app.command()
def describe(
    ctx: typer.Context,
    command_id: CommandId,
    as_json: JsonOption = False,
    utc: UtcOption = False,
) -> None:
    """Show a command."""
    client = client_for(ctx)
    answer = client.command(full_id(client, command_id))
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
    """Print the whole configuration of a command, with every default (YAML)."""
    client = client_for(ctx)
    document = client.command(full_id(client, command_id))["config"]
    if as_json:
        print_json(document)
    else:
        print_yaml(document)


@app.command()
@with_groups
def logs(ctx: typer.Context, command_id: CommandId, out: LogView) -> None:
    """Print the log of a command."""
    client = client_for(ctx)
    out.show(client.task_logs, full_id(client, command_id))


@app.command()
def kill(
    ctx: typer.Context,
    command_ids: Annotated[
        list[str],
        typer.Argument(
            help="Command ids, or their first characters.", autocompletion=complete_commands
        ),
    ],
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Continue with the others if one fails.")
    ] = False,
) -> None:
    """Stop commands at once."""
    client = client_for(ctx)
    for task_id in [full_id(client, word) for word in command_ids]:
        try:
            client.kill_command(task_id)
        except WindlassError as problem:
            if not force:
                raise
            notice(f"Skipped {task_id}: {problem}")
        else:
            notice(f"Killed command {task_id}")


@attributes.command()
def priority(
    ctx: typer.Context,
    command_id: CommandId,
    number: Annotated[int, typer.Argument(metavar="PRIORITY", min=1, max=99)],
) -> None:
    """Set the priority of a command; 1 is the highest."""
    client = client_for(ctx)
    task_id = full_id(client, command_id)
    client.set_command_priority(task_id, number)
    notice(f"Set priority of command {task_id} to {number}")


def _with_volumes(document: dict[str, Any], volumes: list[str]) -> dict[str, Any]:
    mounts = []
    for volume in volumes:
        host, separator, container = volume.partition(":")
        if not (separator and host and container):
            raise InvalidArgument(f"--volume {volume}: expected /host/path:/task/path")
        mounts.append({"host_path": host, "container_path": container})
    if not mounts:
        return document
    given = document.get("bind_mounts") or []
    if not isinstance(given, list):
        raise InvalidArgument("bind_mounts: expected a list of mounts, to which --volume adds")
    return {**document, "bind_mounts": [*given, *mounts]}


def _watch(client: Client, id_: str) -> bool:
    """Show what it waits for, then its output, then how it ended. Whether it succeeded.

    An interrupt leaves the command running and raises typer.Exit.
    """
    look = partial(_look, client, id_)
    try:
        follow(look, lambda command: command.get("state") != "STATE_QUEUED", _Reasons(client).tell)
        LogView(follow=True).show(client.task_logs, id_)
        ended = follow(look, lambda c: c.get("state") == "STATE_TERMINATED", pause_s=FIRST_LOOK_S)
    except KeyboardInterrupt:
        notice(
            f"\nDetached; command {id_} keeps running. Show its log: `det cmd logs -f {id_}`. "
            f"Stop it: `det cmd kill {id_}`"
        )
        raise typer.Exit(DETACHED) from None
    status = str(ended.get("exitStatus") or "")
    notice(f"Command {id_} ended: {status or 'no exit status'}")
    return status == SUCCESS


def _look(client: Client, id_: str) -> Json:
    return dict(client.command(id_)["command"])


class _Reasons:
    """Says what a command waits for once that has lasted for two looks: most start at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last = ""
        self._said = ""

    def tell(self, command: Json) -> None:
        reason = waiting_text(command) if command.get("state") == "STATE_QUEUED" else ""
        if reason and reason == self._last and reason != self._said:
            (text,) = patiently(lambda: in_names(self._client, [reason]))
            notice(f"Waiting: {text}")
            self._said = reason
        self._last = reason


COMMANDS = Table(
    Column("ID", "id", is_id=True),
    Column("Owner", "username"),
    Column("Description", "description"),
    STATE,
    Column("Exit status", "exitStatus"),
    Column("Pool", "resourcePool"),
    STARTED,
    WAITING,
)
