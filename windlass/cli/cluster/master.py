"""`det master`: what users see of the master. `windlass master run` comes from the extra `master`."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.cli.cluster import join_token
from windlass.cli.completion import complete_agents
from windlass.cli.connect import client_for, for_administrators, session_for
from windlass.cli.groups import OperatorGroup
from windlass.cli.output.text import JsonOption, notice, print_fields, print_json
from windlass.sdk.client import Client


class MasterGroup(OperatorGroup):
    entry_point = "master"


app = typer.Typer(
    cls=MasterGroup, no_args_is_help=True, add_completion=False, help="Show the master; run one."
)


app.add_typer(join_token.app, name="join-token")


@app.callback()
def group() -> None:
    """Show the master; run one."""


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
    agent_id: Annotated[
        str, typer.Argument(help="Agent id.", autocompletion=complete_agents, show_default=False)
    ],
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
