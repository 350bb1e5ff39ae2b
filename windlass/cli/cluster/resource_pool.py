"""`det resource-pool`."""

from __future__ import annotations

from typing import Any

import typer

from windlass.cli.connect import client_for
from windlass.cli.groups import AliasedGroup
from windlass.cli.output.text import CsvOption, JsonOption, print_json, print_rows

app = typer.Typer(
    cls=AliasedGroup, no_args_is_help=True, add_completion=False, help="List resource pools."
)


@app.callback()
def group() -> None:
    """List resource pools."""


@app.command("list")
def list_pools(ctx: typer.Context, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """List resource pools, their agents and slots."""
    pools = client_for(ctx).resource_pools()
    if as_json:
        print_json(pools)
        return
    headers = [
        "Pool",
        "Kind",
        "Scheduler",
        "Agents",
        "Min",
        "Max",
        "Slots",
        "In use",
        "Buys",
        "Default for",
    ]
    print_rows(headers, [_row(pool) for pool in pools], as_csv=as_csv)


def _row(pool: dict[str, Any]) -> list[Any]:
    defaults = [
        word
        for key, word in (("defaultComputePool", "compute"), ("defaultAuxPool", "aux"))
        if pool.get(key)
    ]
    return [
        pool.get("name"),
        _kind(pool),
        str(pool.get("schedulerType", "")).removeprefix("SCHEDULER_TYPE_").lower(),
        pool.get("numAgents"),
        pool.get("minAgents") if _kind(pool) != "static" else "",
        pool.get("maxAgents") if _kind(pool) != "static" else "",
        pool.get("slotsAvailable"),
        pool.get("slotsUsed"),
        _buys(pool),
        ", ".join(defaults),
    ]


def _buys(pool: dict[str, Any]) -> str:
    """Types of machines, and whether some of them may be taken back."""
    spot = " (spot)" if pool.get("preemptible") else ""
    return f"{pool.get('instanceType') or ''}{spot}".strip()


def _kind(pool: dict[str, Any]) -> str:
    """The API has words for static pools and for two clouds; a static pool has no limit of instances."""
    kind = str(pool.get("type", "")).removeprefix("RESOURCE_POOL_TYPE_").lower()
    return "elastic" if kind == "static" and int(pool.get("maxAgents") or 0) > 0 else kind
