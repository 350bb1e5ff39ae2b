"""`det task create` and what follows: generic tasks, which may be paused and have tasks below them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.config_file import naming, read_settings, tell_warnings
from windlass.cli.connect import client_for
from windlass.cli.interactive.waiting import going_on, reasons
from windlass.cli.job.words import full_generic_id
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.follow import FIRST_LOOK_S, LogView
from windlass.cli.output.follow import follow as follow_until
from windlass.cli.output.progress import upload
from windlass.cli.output.text import notice, print_json, print_yaml
from windlass.cli.published_ports import LongPublishOption, published, published_ports
from windlass.sdk.client import Client
from windlass.sdk.generic import GenericTasks
from windlass.sdk.wire import Json

TaskId = Annotated[str, typer.Argument(help="Task id, or its first characters.")]
ProjectOption = Annotated[
    int | None, typer.Option("--project-id", "--project_id", help="Place it in this project.")
]
COMPLETED = "GENERIC_TASK_STATE_COMPLETED"
ENDED = (COMPLETED, "GENERIC_TASK_STATE_CANCELED", "GENERIC_TASK_STATE_ERROR")
FollowOption = Annotated[bool, typer.Option("-f", "--follow", help="Print its log until it ends.")]


def create(
    ctx: typer.Context,
    config_file: Annotated[Path, typer.Argument(help="Configuration of the task (YAML).")],
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Override a key: resources.slots=2")
    ] = None,
    context: Annotated[
        Path | None,
        typer.Option(
            "-c", "--context", help="Upload this directory into the task's working directory."
        ),
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option("-i", "--include", help="Upload a further file or directory."),
    ] = None,
    project_id: ProjectOption = None,
    fork: Annotated[
        str | None,
        typer.Option(help="Take what the file does not say from this task, and its files."),
    ] = None,
    parent: Annotated[
        str | None, typer.Option("-p", "--parent", help="It is killed with this task.")
    ] = None,
    inherit_context: Annotated[
        bool,
        typer.Option("--inherit-context", "--inherit_context", help="Take the parent's files."),
    ] = False,
    no_pause: Annotated[
        bool,
        typer.Option("--no-pause", "--no_pause", help="It is never paused or preempted."),
    ] = False,
    follow: FollowOption = False,
    publish: LongPublishOption = None,
) -> None:
    """Run a program that may be paused and go on later, on one node or several."""
    from windlass.sdk.context_dir import pack_directory

    if publish and not follow:
        raise InvalidArgument("--publish needs --follow: ports lead to the task meanwhile")
    document = read_settings(config_file, config or [])
    packed = pack_directory(context, include or [])
    for line in packed.notices:
        notice(line)
    client = client_for(ctx)
    fork, parent = (full_generic_id(client, word) if word else word for word in (fork, parent))
    ports = published_ports(publish, _merged(client, document, fork)) if publish else {}
    with naming(config_file), upload(client.session, "Uploading files"):
        answer = GenericTasks(client).create(
            document,
            packed.files,
            projectId=project_id,
            forkedFrom=fork,
            parentId=parent,
            inheritContext=inherit_context,
            noPause=no_pause,
        )
    _created(client, answer, follow=follow, ports=ports)


def fork(
    ctx: typer.Context,
    task_id: TaskId,
    project_id: ProjectOption = None,
    follow: FollowOption = False,
) -> None:
    """Run a generic task once more, with its configuration and files."""
    client = client_for(ctx)
    forked = full_generic_id(client, task_id)
    answer = GenericTasks(client).create(None, forkedFrom=forked, projectId=project_id)
    _created(client, answer, follow=follow)


def config(ctx: typer.Context, task_id: TaskId, as_json: JsonOption = False) -> None:
    """Print the configuration of a generic task as it was submitted (YAML)."""
    client = client_for(ctx)
    document = GenericTasks(client).config(full_generic_id(client, task_id))
    (print_json if as_json else print_yaml)(document)


def pause(ctx: typer.Context, task_id: TaskId) -> None:
    """Have a generic task, and those below it, leave their slots."""
    client = client_for(ctx)
    task_id = full_generic_id(client, task_id)
    GenericTasks(client).pause(task_id)
    notice(f"Paused task {task_id}")


def unpause(ctx: typer.Context, task_id: TaskId) -> None:
    """Run a generic task again that was paused. Those below it stay paused."""
    client = client_for(ctx)
    task_id = full_generic_id(client, task_id)
    GenericTasks(client).unpause(task_id)
    notice(f"Unpaused task {task_id}")


def kill(
    ctx: typer.Context,
    task_id: TaskId,
    root: Annotated[
        bool, typer.Option("--root", help="From the top of its tree, with all below that.")
    ] = False,
) -> None:
    """End a generic task, and those below it, at once."""
    client = client_for(ctx)
    task_id = full_generic_id(client, task_id)
    GenericTasks(client).kill(task_id, from_root=root)
    notice(f"Killed task {task_id}")


def add_generic(app: typer.Typer) -> None:
    for verb in (create, fork, config, pause, unpause, kill):
        app.command()(verb)


def _merged(client: Client, document: Json, fork: str | None) -> Json:
    """As the master does: top-level keys of the file replace those of the forked task."""
    return {**GenericTasks(client).config(fork), **document} if fork else document


def _created(
    client: Client, answer: Json, *, follow: bool, ports: Mapping[int, int] | None = None
) -> None:
    tell_warnings("task", answer)
    task_id = str(answer["taskId"])
    if not follow:
        typer.echo(task_id)
        return
    notice(f"Created task {task_id}")
    with published(client, task_id, ports or {}):
        completed = _watch(client, task_id)
    if not completed:
        raise typer.Exit(1)


def _watch(client: Client, task_id: str) -> bool:
    """Show what it waits for, then its output, then how it ended. Whether it completed.

    An interrupt leaves the task as it is and raises typer.Exit.
    """
    how = f"Show its log: `det task logs -f {task_id}`"
    with going_on(f"task {task_id}", how, f"det task kill {task_id}") as watched:
        follow_until(
            lambda: watched.see(_look(client, task_id)),
            lambda task: task["state"] != "STATE_QUEUED",
            reasons(client),
        )
        LogView(follow=True).show(client.task_logs, task_id)
        ended = follow_until(
            lambda: client.task(task_id),
            lambda task: task["taskState"] in ENDED,
            pause_s=FIRST_LOOK_S,
        )
    notice(f"Task {task_id} ended: {ended['exitStatus'] or 'no exit status'}")
    return bool(ended["taskState"] == COMPLETED)


def _look(client: Client, task_id: str) -> Json:
    """With the `state` of its newest allocation."""
    task = client.task(task_id)
    return {**task, "state": task["allocations"][0]["state"] if task["allocations"] else None}
