"""The verbs that every kind of interactive task has. The kind is that of the group that a command is called in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from windlass.base.errors import WindlassError
from windlass.base.option_groups import with_groups
from windlass.cli.completion import complete_tasks
from windlass.cli.connect import client_for
from windlass.cli.interactive.kinds import CliKind, kind_of
from windlass.cli.interactive.launching import WorkspaceOption, workspace_id
from windlass.cli.output.columns import JsonOption, TableOptions
from windlass.cli.output.follow import LogView
from windlass.cli.output.text import (
    notice,
    print_fields,
    print_json,
    print_yaml,
    state_name,
    waiting_text,
)
from windlass.cli.output.times import UtcOption, local_time

TaskId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id, or its first characters.", autocompletion=complete_tasks
    ),
]
SortKey = Literal[
    "id", "username", "description", "state", "exitStatus", "resourcePool", "startTime"
]


def add_verbs(app: typer.Typer, kind: CliKind) -> None:
    """To the group of a kind, after those of its own."""
    one, many = kind.name, f"{kind.name}s"
    for name, verb, text in (
        ("list", list_tasks, f"List your {many}."),
        ("describe", describe, f"Show a {one}."),
        ("config", config, f"Print the whole configuration of a {one}, with every default (YAML)."),
        ("logs", logs, f"Print the log of a {one}."),
        ("kill", kill, f"Stop {many} at once."),
    ):
        app.command(name, help=text)(verb)
    attributes = typer.Typer(no_args_is_help=True, help=f"Change settings of a {one}.")
    text = f"Set the priority of a {one}; 1 is the highest."
    attributes.command("priority", help=text)(set_priority)
    app.add_typer(attributes, name="set")


@with_groups
def list_tasks(
    ctx: typer.Context,
    *,
    everybody: Annotated[
        bool, typer.Option("-a", "--all", help="Include those of other users.")
    ] = False,
    workspace: WorkspaceOption = None,
    sort_by: Annotated[
        SortKey, typer.Option("--sort-by", help="Sort by this field.")
    ] = "startTime",
    order_by: Annotated[
        Literal["asc", "desc"], typer.Option("--order-by", help="Sort ascending or descending.")
    ] = "asc",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print only the ids.")] = False,
    out: TableOptions,
) -> None:
    client, kind = client_for(ctx), kind_of(ctx)
    user = None if everybody else str(client.me().get("username"))
    tasks = kind.of(client).listed(user=user, workspace_id=workspace_id(client, workspace))
    tasks.sort(key=lambda one: str(one.get(sort_by) or ""), reverse=order_by == "desc")
    if quiet and not out.as_json:
        for one in tasks[: out.limit]:
            typer.echo(one["id"])
    else:
        out.show(kind.table, tasks)


def describe(
    ctx: typer.Context, task_id: TaskId, as_json: JsonOption = False, utc: UtcOption = False
) -> None:
    client, kind = client_for(ctx), kind_of(ctx)
    answer = kind.of(client).get(kind.full_id(client, task_id))
    if as_json:
        print_json(answer)
        return
    one, configuration = answer[kind.wire.one], answer.get("config") or {}
    resources: dict[str, Any] = configuration.get("resources") or {}
    print_fields(
        [
            (kind.name, one.get("id")),
            ("description", one.get("description")),
            *kind.fields(one, configuration),
            ("owner", one.get("username")),
            ("job", one.get("jobId")),
            ("state", state_name(one.get("state"))),
            ("waiting for", waiting_text(one)),
            ("exit status", one.get("exitStatus")),
            ("pool", one.get("resourcePool")),
            ("slots", resources.get("slots")),
            ("priority", resources.get("priority")),
            ("started", local_time(one.get("startTime"))),
            ("ended", local_time(one.get("endTime"))),
        ]
    )


def config(ctx: typer.Context, task_id: TaskId, as_json: JsonOption = False) -> None:
    client, kind = client_for(ctx), kind_of(ctx)
    document = kind.of(client).get(kind.full_id(client, task_id))["config"]
    if as_json:
        print_json(document)
    else:
        print_yaml(document)


@with_groups
def logs(ctx: typer.Context, task_id: TaskId, out: LogView) -> None:
    client = client_for(ctx)
    out.show(client.task_logs, kind_of(ctx).full_id(client, task_id))


def kill(
    ctx: typer.Context,
    task_ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...", help="Ids, or their first characters.", autocompletion=complete_tasks
        ),
    ],
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Continue with the others if one fails.")
    ] = False,
) -> None:
    client, kind = client_for(ctx), kind_of(ctx)
    for task_id in [kind.full_id(client, word) for word in task_ids]:
        try:
            kind.of(client).kill(task_id)
        except WindlassError as problem:
            if not force:
                raise
            notice(f"Skipped {task_id}: {problem}")
        else:
            kind.forget(task_id)
            notice(f"Killed {kind.name} {task_id}")


def set_priority(
    ctx: typer.Context,
    task_id: TaskId,
    number: Annotated[int, typer.Argument(metavar="PRIORITY", min=1, max=99)],
) -> None:
    client, kind = client_for(ctx), kind_of(ctx)
    full_id = kind.full_id(client, task_id)
    kind.of(client).set_priority(full_id, number)
    notice(f"Set priority of {kind.name} {full_id} to {number}")
