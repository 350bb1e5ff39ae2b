"""`det agent`: what users see of agents. `windlass agent run` comes from the extra `agent`."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.cluster import agent_install
from windlass.cli.completion import complete_agents
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import OperatorGroup, command_group
from windlass.cli.output.columns import Column, Table, TableOptions, joined
from windlass.cli.output.text import notice
from windlass.cli.output.times import local_time
from windlass.sdk.client import Client
from windlass.sdk.wire import Json


class AgentGroup(OperatorGroup):
    entry_point = "agent"


app = command_group(cls=AgentGroup)

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


@app.command("list")
@with_groups
def list_agents(
    ctx: typer.Context,
    *,
    everyone: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Show also agents that the master refuses, and why. For administrators.",
        ),
    ] = False,
    out: TableOptions,
) -> None:
    """List agents and their slots."""
    client = client_for(ctx)
    agents = client.agents()
    if everyone:
        with for_administrators():
            agents += [{**agent, "refused": True} for agent in client.refused_agents()]
    out.show(ALL_AGENTS if everyone else AGENTS, agents)


@app.command()
def enable(ctx: typer.Context, agent_ids: AgentIds = None, everyone: AllOption = False) -> None:
    """Start tasks on agents again. For administrators."""
    client = client_for(ctx)
    for agent_id in _chosen(client, agent_ids, everyone):
        with for_administrators():
            client.enable_agent(agent_id)
        notice(f"Enabled agent {agent_id}")


@app.command()
@with_groups
def disable(
    ctx: typer.Context,
    *,
    agent_ids: AgentIds = None,
    everyone: AllOption = False,
    drain: DrainOption = False,
    out: TableOptions,
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
    if not drain:
        return
    running = [task for task in client.live_allocations() if set(chosen) & set(_agents_of(task))]
    if running or out.as_json or out.as_csv:
        out.show(RUNNING, running)
    else:
        notice("No tasks are running there")


def _chosen(client: Client, agent_ids: list[str] | None, everyone: bool) -> list[str]:
    if everyone == bool(agent_ids):
        raise InvalidArgument("Give either the ids of agents or --all")
    return agent_ids or sorted(str(agent["id"]) for agent in client.agents())


def _agents_of(task: Json) -> list[str]:
    parts = task.get("resources") or []
    return sorted({agent for part in parts for agent in part.get("agentDevices") or {}})


def device_kind(slot: Json) -> str:
    """cuda, rocm or cpu; unspecified while its agent is away."""
    return str((slot.get("device") or {}).get("type", "")).removeprefix("TYPE_").lower()


def service_state(thing: Json) -> str:
    """Of an agent or a slot."""
    if thing.get("connected") is False:
        return "away"
    if thing.get("draining"):
        return "draining"
    return "enabled" if thing.get("enabled", True) else "disabled"


def _slots(agent: Json) -> list[Json]:
    return list((agent.get("slots") or {}).values())


def _slots_in_use(agent: Json) -> int:
    return sum(slot.get("container") is not None for slot in _slots(agent))


def _state(agent: Json) -> str:
    """With when its machine goes, or how many of its slots are out of service by themselves."""
    if agent.get("refused"):
        return "refused"
    state = service_state(agent)
    if state == "enabled" and (leaves := agent.get("leavesAt")):
        return f"leaves at {local_time(leaves)}"
    out = sum(service_state(slot) != "enabled" for slot in _slots(agent))
    return f"{state}, {out} of its slots not" if state == "enabled" and out else state


def _isolation(agent: Json) -> str:
    """What keeps tasks apart there, and that it cannot contain them."""
    kind = str(agent.get("isolation") or "unknown")
    if kind == "unknown":
        return ""
    if kind == "directory":
        return "no namespaces"
    return f"{kind}, not root and one uid for all" if agent.get("oneUser") else kind


def _why_refused(agent: Json) -> str:
    """Nothing that such an agent says of itself is verified."""
    if not agent.get("refused"):
        return ""
    times = int(agent.get("times") or 1)
    often = f" ({times} times since {local_time(agent.get('firstAt'))})" if times > 1 else ""
    return f"{agent.get('reason')}{often}"


AGENTS = Table(
    Column("Agent", lambda a: a.get("id") or "(unnamed)"),
    Column("Registered", lambda a: a.get("registeredTime") or a.get("lastAt"), local_time),
    Column("Pool", lambda a: joined(a.get("resourcePools")) or a.get("pool")),
    Column("Slots", lambda a: "" if a.get("refused") else len(_slots(a))),
    Column("In use", lambda a: "" if a.get("refused") else _slots_in_use(a)),
    Column("Kind", lambda a: joined(sorted(set(map(device_kind, _slots(a)))))),
    Column("State", _state),
    Column("Runtime", "containerRuntime"),
    Column("Isolation", _isolation),
    Column("Labels", "labels", joined),
    Column("Address", lambda a: joined(a.get("addresses")) or a.get("address")),
    Column("Version", "version"),
)
ALL_AGENTS = Table(*AGENTS.columns, Column("Refused", _why_refused, below="was refused"))
RUNNING = Table(
    Column("Task", "taskId"),
    Column("Allocation", "allocationId"),
    Column("Name", "name"),
    Column("Slots", "slotsNeeded"),
    Column("Agents", _agents_of, joined),
    Column("Submitted", "registeredTime", local_time),
)
