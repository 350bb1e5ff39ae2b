"""`det master`: what users see of the master. `windlass master run` comes from the extra `master`."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.cli.cluster import join_token
from windlass.cli.completion import AgentId
from windlass.cli.connect import client_for, for_administrators, session_for
from windlass.cli.groups import OperatorGroup, command_group
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.text import notice, print_fields, print_json
from windlass.sdk.client import Client


class MasterGroup(OperatorGroup):
    entry_point = "master"


app = command_group(cls=MasterGroup)
app.add_typer(join_token.app, name="join-token")


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
