"""`det master`: what users see of the master. `windlass master run` comes from the extra `master`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.cluster import cluster_message, join_token
from windlass.cli.completion import AgentId
from windlass.cli.connect import client_for, for_administrators, session_for
from windlass.cli.groups import OperatorGroup, command_group
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.terminal import for_terminal
from windlass.cli.output.text import notice, print_fields, print_json
from windlass.sdk.client import Client
from windlass.sdk.operation import Operation

LEVELS = ("trace", "debug", "info", "warning", "error", "critical")


class MasterGroup(OperatorGroup):
    entry_point = "master"


app = command_group(cls=MasterGroup)
app.add_typer(join_token.app, name="join-token")
app.add_typer(cluster_message.app, name="cluster-message")


@app.command()
def info(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show the version and the identity of the master. Needs no login."""
    with session_for(ctx) as session:
        content = Client(session).info()
    if as_json:
        print_json(content)
    else:
        print_fields(sorted(content.items()))


@app.command("forget-agent")
def forget_agent(
    ctx: typer.Context,
    agent_id: AgentId,
    force: Annotated[
        bool, typer.Option("--force", help="Do it also while the agent is connected.")
    ] = False,
) -> None:
    """Forget an agent and its credential: a machine with a join token may take its id. For administrators.

    Whatever runs on it is lost: trials restart on other agents from their last checkpoints, other tasks fail. Use it
    for a machine that is gone or has lost its work directory; with --force for one whose credential was stolen.
    """
    with for_administrators():
        lost = client_for(ctx).forget_agent(agent_id, force=force)["lostAllocations"]
    notice(f"Forgot agent {agent_id}" + (f"; lost {', '.join(lost)}" if lost else ""))


@app.command()
def logs(
    ctx: typer.Context,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what is logged from now on.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=1, help="Print only the last N entries.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the newest entries of the master's own log. For administrators."""
    with for_administrators():
        for entry in Operation(client_for(ctx).session).master_logs(follow=follow, tail=tail):
            if as_json:
                typer.echo(json.dumps(entry))
            else:
                level = entry["level"].removeprefix("LOG_LEVEL_")
                typer.echo(for_terminal(f"{entry['timestamp']} [{level}]: {entry['message']}"))


@app.command("log-level")
def log_level(
    ctx: typer.Context,
    level: Annotated[str, typer.Argument(help=", ".join(LEVELS) + ".")],
) -> None:
    """Set how much the master logs, until it restarts. For administrators."""
    if level.lower() not in LEVELS:
        raise InvalidArgument(f"LEVEL must be one of {', '.join(LEVELS)}, not {level!r}")
    with for_administrators():
        Operation(client_for(ctx).session).set_log_level(level.upper())
    notice(f"The master logs {level.lower()} and above until it restarts")


@app.command("show-config")
def show_config(ctx: typer.Context) -> None:
    """Print the effective master.yaml as JSON, without secrets. For administrators."""
    with for_administrators():
        print_json(Operation(client_for(ctx).session).master_config())
