"""`det resource-pool`."""

from __future__ import annotations

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, Table, TableOptions, joined
from windlass.sdk.wire import Json

app = command_group()


@app.command("list")
@with_groups
def list_pools(ctx: typer.Context, out: TableOptions) -> None:
    """List resource pools, their agents and slots."""
    out.show(POOLS, client_for(ctx).resource_pools())


def _kind(pool: Json) -> str:
    """The API has words for static pools and for two clouds; a static pool has no limit of instances."""
    kind = str(pool.get("type", "")).removeprefix("RESOURCE_POOL_TYPE_").lower()
    return "elastic" if kind == "static" and int(pool.get("maxAgents") or 0) > 0 else kind


def _scheduler(pool: Json) -> str:
    return str(pool.get("schedulerType", "")).removeprefix("SCHEDULER_TYPE_").lower()


def _buys(pool: Json) -> str:
    """Types of machines, and whether some of them may be taken back."""
    spot = " (spot)" if pool.get("preemptible") else ""
    return f"{pool.get('instanceType') or ''}{spot}".strip()


def _default_for(pool: Json) -> str:
    kinds = {"defaultComputePool": "compute", "defaultAuxPool": "aux"}
    return joined(word for key, word in kinds.items() if pool.get(key))


POOLS = Table(
    Column("Pool", "name"),
    Column("Kind", _kind),
    Column("Scheduler", _scheduler),
    Column("Agents", "numAgents"),
    Column("Min", lambda pool: pool.get("minAgents") if _kind(pool) != "static" else ""),
    Column("Max", lambda pool: pool.get("maxAgents") if _kind(pool) != "static" else ""),
    Column("Slots", "slotsAvailable"),
    Column("In use", "slotsUsed"),
    Column("Buys", _buys),
    Column("Default for", _default_for),
)
