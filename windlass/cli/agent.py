"""`det agent`: what users see of agents. `windlass agent run` comes from the extra `agent`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer

from windlass.cli.connect import client_for
from windlass.cli.groups import OperatorGroup
from windlass.cli.output import CsvOption, JsonOption, local_time, print_json, print_rows


class AgentGroup(OperatorGroup):
    entry_point = "agent"


app = typer.Typer(
    cls=AgentGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Machines of the cluster; run an agent.",
)


@app.callback()
def group() -> None:
    """Machines of the cluster; run an agent."""


@app.command("list")
def list_agents(ctx: typer.Context, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """Connected agents and their slots."""
    agents = client_for(ctx).agents()
    if as_json:
        print_json(agents)
        return
    headers = [
        "Agent",
        "Registered",
        "Pool",
        "Slots",
        "In use",
        "Kind",
        "State",
        "Address",
        "Version",
    ]
    print_rows(headers, [_row(agent) for agent in agents], as_csv=as_csv)


def _row(agent: dict[str, Any]) -> list[Any]:
    slots = list((agent.get("slots") or {}).values())
    kinds = Counter(
        str((slot.get("device") or {}).get("type", "")).removeprefix("TYPE_").lower()
        for slot in slots
    )
    state = (
        "away"
        if agent.get("connected") is False
        else "draining"
        if agent.get("draining")
        else "enabled"
        if agent.get("enabled", True)
        else "disabled"
    )
    return [
        agent.get("id"),
        local_time(agent.get("registeredTime")),
        ", ".join(agent.get("resourcePools") or []),
        len(slots),
        sum(slot.get("container") is not None for slot in slots),
        ", ".join(sorted(kinds)),
        state,
        ", ".join(agent.get("addresses") or []),
        agent.get("version"),
    ]
