"""`det agent`: what users see of agents. `windlass agent run` comes from the extra `agent`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.cluster import agent_install
from windlass.cli.completion import complete_agents
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import OperatorGroup
from windlass.cli.output.text import (
    REFUSED,
    CsvOption,
    JsonOption,
    LimitOption,
    notice,
    print_json,
    print_rows,
)
from windlass.cli.output.times import UtcOption, local_time
from windlass.sdk.client import Client


class AgentGroup(OperatorGroup):
    entry_point = "agent"


app = typer.Typer(
    cls=AgentGroup,
    no_args_is_help=True,
    add_completion=False,
    help="List and drain machines; run an agent.",
)


AgentIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[AGENT]...",
        help="Agent ids.",
        show_default=False,
        autocompletion=complete_agents,
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Apply it to all agents.")]
DrainOption = Annotated[
    bool, typer.Option("--drain", help="Let running tasks finish; start no new ones.")
]


app.command()(agent_install.install)
app.command()(agent_install.uninstall)
app.command()(agent_install.wheels)


@app.callback()
def group() -> None:
    """List and drain machines; run an agent."""


@app.command("list")
def list_agents(
    ctx: typer.Context,
    everyone: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Show also agents that the master refuses, and why. For administrators.",
        ),
    ] = False,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """List agents and their slots."""
    client = client_for(ctx)
    agents = client.agents()[:limit]
    refused: list[dict[str, Any]] = []
    if everyone:
        with for_administrators():
            refused = client.refused_agents()[:limit]
    if as_json:
        print_json([*agents, *({**agent, "refused": True} for agent in refused)])
        return
    headers = [
        "Agent",
        "Registered",
        "Pool",
        "Slots",
        "In use",
        "Kind",
        "State",
        "Runtime",
        "Isolation",
        "Labels",
        "Address",
        "Version",
    ]
    rows = [_row(agent) for agent in agents]
    if everyone:
        headers.append(REFUSED)
        rows = [*([*row, ""] for row in rows), *(_refused_row(agent, headers) for agent in refused)]
    print_rows(headers, rows, as_csv=as_csv)


@app.command()
def enable(ctx: typer.Context, agent_ids: AgentIds = None, everyone: AllOption = False) -> None:
    """Start tasks on agents again. For administrators."""
    client = client_for(ctx)
    for agent_id in _chosen(client, agent_ids, everyone):
        with for_administrators():
            client.enable_agent(agent_id)
        notice(f"Enabled agent {agent_id}")


@app.command()
def disable(
    ctx: typer.Context,
    agent_ids: AgentIds = None,
    everyone: AllOption = False,
    drain: DrainOption = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    utc: UtcOption = False,
) -> None:
    """Stop the tasks of agents and start no new ones; trials restart on other agents.

    With --drain running tasks may finish; they are listed. For administrators.
    """
    client = client_for(ctx)
    chosen = _chosen(client, agent_ids, everyone)
    for agent_id in chosen:
        with for_administrators():
            client.disable_agent(agent_id, drain=drain)
        notice(f"{'Draining' if drain else 'Disabled'} agent {agent_id}")
    if drain:
        _print_running(client, set(chosen), as_json=as_json, as_csv=as_csv)


def _chosen(client: Client, agent_ids: list[str] | None, everyone: bool) -> list[str]:
    if everyone == bool(agent_ids):
        raise InvalidArgument("Give either the ids of agents or --all")
    return agent_ids or sorted(str(agent["id"]) for agent in client.agents())


def _print_running(client: Client, agents: set[str], *, as_json: bool, as_csv: bool) -> None:
    """What has resources on one of the agents."""
    placed = [(task, _agents_of(task)) for task in client.live_allocations()]
    running = [(task, places) for task, places in placed if agents & set(places)]
    if as_json:
        print_json([task for task, _ in running])
        return
    if not running and not as_csv:
        notice("No tasks are running there")
        return
    headers = ["Task", "Allocation", "Name", "Slots", "Agents", "Submitted"]
    rows = [
        [
            task.get("taskId"),
            task.get("allocationId"),
            task.get("name"),
            task.get("slotsNeeded"),
            ", ".join(places),
            local_time(task.get("registeredTime")),
        ]
        for task, places in running
    ]
    print_rows(headers, rows, as_csv=as_csv)


def _agents_of(task: dict[str, Any]) -> list[str]:
    parts = task.get("resources") or []
    return sorted({agent for part in parts for agent in part.get("agentDevices") or {}})


def device_kind(slot: dict[str, Any]) -> str:
    """cuda, rocm or cpu; unspecified while its agent is away."""
    return str((slot.get("device") or {}).get("type", "")).removeprefix("TYPE_").lower()


def service_state(thing: dict[str, Any]) -> str:
    """Of an agent or a slot."""
    if thing.get("connected") is False:
        return "away"
    if thing.get("draining"):
        return "draining"
    return "enabled" if thing.get("enabled", True) else "disabled"


def _agent_state(agent: dict[str, Any], slots: list[dict[str, Any]]) -> str:
    """With when its machine goes, or how many of its slots are out of service by themselves."""
    state = service_state(agent)
    if state == "enabled" and (leaves := agent.get("leavesAt")):
        return f"leaves at {local_time(leaves)}"
    out = sum(service_state(slot) != "enabled" for slot in slots)
    return f"{state}, {out} of its slots not" if state == "enabled" and out else state


def _isolation(agent: dict[str, Any]) -> str:
    """What keeps tasks apart there, and that it cannot contain them."""
    kind = str(agent.get("isolation") or "unknown")
    if kind == "unknown":
        return ""
    if kind == "directory":
        return "no namespaces"
    return f"{kind}, not root and one uid for all" if agent.get("oneUser") else kind


def _row(agent: dict[str, Any]) -> list[Any]:
    slots = list((agent.get("slots") or {}).values())
    kinds = Counter(map(device_kind, slots))
    return [
        agent.get("id"),
        local_time(agent.get("registeredTime")),
        ", ".join(agent.get("resourcePools") or []),
        len(slots),
        sum(slot.get("container") is not None for slot in slots),
        ", ".join(sorted(kinds)),
        _agent_state(agent, slots),
        agent.get("containerRuntime"),
        _isolation(agent),
        ", ".join(agent.get("labels") or []),
        ", ".join(agent.get("addresses") or []),
        agent.get("version"),
    ]


def _refused_row(agent: dict[str, Any], headers: Sequence[str]) -> list[Any]:
    """One that the master does not take. Nothing it says of itself is verified."""
    times = int(agent.get("times") or 1)
    often = f" ({times} times since {local_time(agent.get('firstAt'))})" if times > 1 else ""
    cells = {
        "Agent": agent.get("id") or "(unnamed)",
        "Registered": local_time(agent.get("lastAt")),
        "Pool": agent.get("pool"),
        "State": "refused",
        "Address": agent.get("address"),
        "Version": agent.get("version"),
        REFUSED: f"{agent.get('reason')}{often}",
    }
    return [cells.get(header, "") for header in headers]
