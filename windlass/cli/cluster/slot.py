"""`det slot`: single GPUs (or CPU units) of agents, and what holds them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from windlass.cli.cluster.agent import DrainOption, device_kind, service_state
from windlass.cli.completion import complete_agents
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import AliasedGroup
from windlass.cli.output.text import (
    CsvOption,
    JsonOption,
    LimitOption,
    notice,
    print_json,
    print_rows,
)

app = typer.Typer(
    cls=AliasedGroup,
    no_args_is_help=True,
    add_completion=False,
    help="List and drain single GPUs and other slots.",
)

AgentId = Annotated[
    str, typer.Argument(help="Agent id.", show_default=False, autocompletion=complete_agents)
]
SlotId = Annotated[int, typer.Argument(help="Number of the slot.", show_default=False)]

FREE = "FREE"
OCCUPIED = "OCCUPIED"
"""Used by something that is not in the list of tasks (any more)."""

COLUMNS = {
    "Agent": "agent_id",
    "Pool": "resource_pools",
    "Slot": "slot_id",
    "State": "state",
    "Allocation": "allocation_id",
    "Task": "task_name",
    "Kind": "type",
    "Device": "device",
}
"""Headers, and the keys of the JSON form that they stand for."""


@app.callback()
def group() -> None:
    """List and drain single GPUs and other slots."""


@app.command("list")
def list_slots(
    ctx: typer.Context,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """List every slot of the cluster and the task that uses it."""
    client = client_for(ctx)
    tasks = {
        part.get("containerId"): task
        for task in client.live_allocations()
        for part in task.get("resources") or []
    }
    slots = [
        _describe(agent, slot, tasks)
        for agent in sorted(client.agents(), key=lambda agent: str(agent.get("id")))
        for slot in (agent.get("slots") or {}).values()
    ][:limit]
    if as_json:
        print_json(slots)
        return
    print_rows(
        list(COLUMNS), [[slot[key] for key in COLUMNS.values()] for slot in slots], as_csv=as_csv
    )


@app.command()
def enable(ctx: typer.Context, agent_id: AgentId, slot_id: SlotId) -> None:
    """Start tasks on a slot again. For administrators."""
    with for_administrators():
        client_for(ctx).enable_slot(agent_id, slot_id)
    notice(f"Enabled slot {slot_id} of agent {agent_id}")


@app.command()
def disable(
    ctx: typer.Context, agent_id: AgentId, slot_id: SlotId, drain: DrainOption = False
) -> None:
    """Stop the task that uses a slot and start no new one; a trial restarts on another slot.

    With --drain the task may finish. For administrators.
    """
    with for_administrators():
        client_for(ctx).disable_slot(agent_id, slot_id, drain=drain)
    notice(f"{'Draining' if drain else 'Disabled'} slot {slot_id} of agent {agent_id}")


def _describe(
    agent: dict[str, Any], slot: dict[str, Any], tasks: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """`tasks`: by the ids of their containers."""
    container = slot.get("container")
    task = tasks.get(container.get("id")) if container else None
    held = task.get("allocationId") if task else OCCUPIED
    return {
        "agent_id": agent.get("id"),
        "resource_pools": ", ".join(agent.get("resourcePools") or []),
        "slot_id": slot.get("id"),
        "enabled": slot.get("enabled", True),
        "draining": slot.get("draining", False),
        "state": service_state({**slot, "connected": agent.get("connected")}),
        "allocation_id": held if container else FREE,
        "task_name": task.get("name") if task else "",
        "type": device_kind(slot),
        "device": (slot.get("device") or {}).get("brand"),
    }
