"""`det slot`: single GPUs (or CPU units) of agents, and what holds them."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.cluster.agent import DrainOption, device_kind, service_state
from windlass.cli.completion import AgentId
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, Table, TableOptions, joined
from windlass.cli.output.text import notice
from windlass.sdk.wire import Json

app = command_group()

SlotId = Annotated[int, typer.Argument(help="Number of the slot.", show_default=False)]

FREE = "FREE"
OCCUPIED = "OCCUPIED"
"""Used by something that is not in the list of tasks (any more)."""

SLOTS = Table(
    Column("Agent", "agent_id"),
    Column("Pool", "resource_pools"),
    Column("Slot", "slot_id"),
    Column("State", "state"),
    Column("Allocation", "allocation_id"),
    Column("Task", "task_name"),
    Column("Kind", "type"),
    Column("Device", "device"),
)


@app.command("list")
@with_groups
def list_slots(ctx: typer.Context, out: TableOptions) -> None:
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
    ]
    out.show(SLOTS, slots)


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


def _describe(agent: Json, slot: Json, tasks: dict[str, Json]) -> Json:
    """`tasks`: by the ids of their containers."""
    container = slot.get("container")
    task = tasks.get(container.get("id")) if container else None
    held = task.get("allocationId") if task else OCCUPIED
    return {
        "agent_id": agent.get("id"),
        "resource_pools": joined(agent.get("resourcePools")),
        "slot_id": slot.get("id"),
        "enabled": slot.get("enabled", True),
        "draining": slot.get("draining", False),
        "state": service_state({**slot, "connected": agent.get("connected")}),
        "allocation_id": held if container else FREE,
        "task_name": task.get("name") if task else "",
        "type": device_kind(slot),
        "device": (slot.get("device") or {}).get("brand"),
    }
