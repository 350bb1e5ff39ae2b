"""Slots in use, by agent: counted once per decision, for all that asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from master.core.scheduler.fitting import REAL, FreeAgent
from master.core.scheduler.types import PoolState, Running, Start


@dataclass(frozen=True, slots=True)
class Usage:
    """What runs, in one walk over it."""

    used: dict[str, int]
    """Slots in use on every agent that has work, zero-slot tasks and leaving work included."""
    fixed: dict[str, int]
    """Of those that of work which neither leaves nor may be asked to."""
    leavers: list[Running]
    """Work that was asked to stop."""
    closers: list[Running]
    """Work with slots that are being taken out of service."""


def usage_of(pool: PoolState) -> Usage:
    used: dict[str, int] = {}
    fixed: dict[str, int] = {}
    leavers: list[Running] = []
    closers: list[Running] = []
    for one in pool.running:
        leaves = one.releasing
        if leaves:
            leavers.append(one)
        if one.closing:
            closers.append(one)
        stays = not leaves and not one.request.preemptible
        for agent, slots in one.placement.items():
            used[agent] = used.get(agent, 0) + slots
            if stays:
                fixed[agent] = fixed.get(agent, 0) + slots
    return Usage(used, fixed, leavers, closers)


def used_slots(running: Iterable[Running | Start]) -> dict[str, int]:
    """Slots in use by agent, those of leaving work included."""
    used: dict[str, int] = {}
    for one in running:
        for agent, slots in one.placement.items():
            used[agent] = used.get(agent, 0) + slots
    return used


def closing_slots(running: Iterable[Running]) -> dict[str, int]:
    """Slots in use that are being taken out of service, by agent."""
    closing: dict[str, int] = {}
    for one in running:
        for agent, slots in one.closing.items():
            closing[agent] = closing.get(agent, 0) + slots
    return closing


def free_agents(pool: PoolState, used: Mapping[str, int]) -> list[FreeAgent]:
    """Agents that may get work, with the slots that are free there and not kept for reservations."""
    kept = pool.kept
    return [
        (
            a.id,
            a.slots,
            a.slots - used.get(a.id, 0) - (kept[a.id].free if a.id in kept else 0),
            REAL,
        )
        for a in pool.agents
        if a.schedulable
    ]


def lasting_sizes(pool: PoolState, usage: Usage) -> dict[str, int]:
    """How many slots each agent that takes work will have once those in use that are disabled are gone."""
    return sizes_without(pool, closing_slots(usage.closers))


def sizes_unless_fixed(pool: PoolState, usage: Usage) -> dict[str, int]:
    """How many slots each agent that takes work will have once all has left that was asked to, or could be."""
    return sizes_without(
        pool, closing_slots(r for r in usage.closers if r.releasing or r.request.preemptible)
    )


def sizes_without(pool: PoolState, closing: Mapping[str, int]) -> dict[str, int]:
    return {a.id: a.slots - closing.get(a.id, 0) for a in pool.agents if a.schedulable}


def capacity(pool: PoolState, usage: Usage, expected: Iterable[FreeAgent]) -> int:
    """Slots that shares are made of: schedulable ones, those held on agents that get no more work, expected ones.

    What goes out of service when work leaves that has been asked to, or could be, is nobody's any more.
    """
    sizes = sizes_unless_fixed(pool, usage)
    leaving = used_slots(usage.leavers)
    elsewhere = sum(
        slots - leaving.get(agent, 0) for agent, slots in usage.used.items() if agent not in sizes
    )
    return sum(sizes.values()) + elsewhere + sum(size for _, size, _, _ in expected)
