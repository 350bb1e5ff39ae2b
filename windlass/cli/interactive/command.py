"""`det command`: run one program on the cluster, watch and control it."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.interactive.kinds import COMMAND
from windlass.cli.interactive.launching import DetachOption, LaunchOptions, told
from windlass.cli.interactive.verbs import add_verbs
from windlass.cli.interactive.waiting import going_on, has_ended, reasons
from windlass.cli.output.follow import FIRST_LOOK_S, LogView, follow
from windlass.cli.output.text import notice
from windlass.cli.published_ports import PublishOption, published, published_ports
from windlass.sdk.client import Client

app = COMMAND.group()
SUCCESS = "success"
"""The exit status of a command that succeeded."""


@app.command(context_settings={"allow_interspersed_args": False})
@with_groups
def run(
    ctx: typer.Context,
    entrypoint: Annotated[
        list[str] | None,
        typer.Argument(help="Program and arguments; one quoted string is run by a shell."),
    ] = None,
    *,
    given: LaunchOptions,
    publish: PublishOption = None,
    detach: DetachOption = False,
) -> None:
    """Run a program and print its output. The exit code is 0 only if the command succeeded."""
    document = given.document()
    if entrypoint:
        document["entrypoint"] = entrypoint
    if not document.get("entrypoint") and given.config_file is None:
        raise InvalidArgument(
            "Nothing to run: give a program (det cmd run [OPTIONS] PROGRAM [ARGUMENTS]), "
            "or an entrypoint in --config-file"
        )
    if publish and detach:
        raise InvalidArgument(
            "-p cannot be used with --detach: ports lead to it while it is watched"
        )
    ports = published_ports(publish or [], document)
    client = client_for(ctx)
    answer = given.launch(client, COMMAND, document)
    if detach:
        typer.echo(answer["command"]["id"])
        return
    task_id = told(COMMAND, answer)
    with published(client, task_id, ports):
        succeeded = _watch(client, task_id)
    if not succeeded:
        raise typer.Exit(1)


add_verbs(app, COMMAND)


def _watch(client: Client, id_: str) -> bool:
    """Show what it waits for, then its output, then how it ended. Whether it succeeded.

    An interrupt leaves the command running and raises typer.Exit.
    """
    look = partial(COMMAND.of(client).one, id_)
    how = f"Show its log: `det cmd logs -f {id_}`"
    with going_on(f"command {id_}", how, f"det cmd kill {id_}") as watched:
        follow(
            lambda: watched.see(look()),
            lambda command: command.get("state") != "STATE_QUEUED",
            reasons(client),
        )
        LogView(follow=True).show(client.task_logs, id_)
        ended = follow(look, has_ended, pause_s=FIRST_LOOK_S)
    status = str(ended.get("exitStatus") or "")
    notice(f"Command {id_} ended: {status or 'no exit status'}")
    return status == SUCCESS
