"""`det resource-pool`."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.connect import client_for
from windlass.cli.groups import command_group
from windlass.cli.output.columns import Column, Table, TableOptions, joined
from windlass.cli.output.text import notice
from windlass.sdk.wire import Json

app = command_group()
bindings = command_group()
app.add_typer(bindings, name="bindings", help="Keep a pool for some workspaces.")

PoolName = Annotated[str, typer.Argument(metavar="POOL", help="Name of the pool.")]
WorkspaceNames = Annotated[
    list[str], typer.Argument(metavar="WORKSPACE...", help="Names of workspaces.")
]


@app.command("list")
@with_groups
def list_pools(ctx: typer.Context, out: TableOptions) -> None:
    """List resource pools, their agents and slots."""
    out.show(POOLS, client_for(ctx).resource_pools())


@bindings.command("list-workspaces")
@with_groups
def list_workspaces(ctx: typer.Context, pool: PoolName, *, out: TableOptions) -> None:
    """List the workspaces that a pool is kept for; none: it is everybody's."""
    client = client_for(ctx)
    bound = set(client.pool_bindings().listed(pool))
    out.show(WORKSPACES, [one for one in client.workspaces() if one["id"] in bound])


@bindings.command()
def add(ctx: typer.Context, pool: PoolName, workspaces: WorkspaceNames) -> None:
    """Keep a pool for these workspaces, and for those that it is bound to. What runs goes on."""
    client_for(ctx).pool_bindings().add(pool, workspaces)
    notice(f"Bound {pool} to {joined(workspaces)}")


@bindings.command()
def remove(ctx: typer.Context, pool: PoolName, workspaces: WorkspaceNames) -> None:
    """Remove bindings. Without any, the pool is everybody's."""
    client_for(ctx).pool_bindings().remove(pool, workspaces)
    notice(f"Removed the bindings of {pool} to {joined(workspaces)}")


@bindings.command()
def replace(ctx: typer.Context, pool: PoolName, workspaces: WorkspaceNames) -> None:
    """Keep a pool for these workspaces alone. What runs goes on."""
    client_for(ctx).pool_bindings().replace(pool, workspaces)
    notice(f"Bound {pool} to {joined(workspaces)} alone")


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


WORKSPACES = Table(Column("Id", "id"), Column("Name", "name"))
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
