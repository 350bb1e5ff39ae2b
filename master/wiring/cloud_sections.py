"""What is read alike from the provider sections of every cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from master.config import ResolvedPool
from windlass.base.errors import InvalidConfig

SectionT = TypeVar("SectionT")


def sections_of(
    pools: Sequence[ResolvedPool], kind: type[SectionT]
) -> Iterator[tuple[ResolvedPool, SectionT]]:
    for pool in pools:
        for section in pool.providers:
            if isinstance(section, kind):
                yield pool, section


def repeated(
    sections: Sequence[tuple[ResolvedPool, SectionT]],
    machine: Callable[[SectionT], tuple[str | int, ...]],
) -> Iterator[str]:
    """Pools that buy the same machine by two sections. `machine`: its type first, then what else tells it apart."""
    seen: set[tuple[str | int, ...]] = set()
    for pool, section in sections:
        bought = machine(section)
        kind = (pool.name, *bought)
        if kind in seen:
            yield (
                f"resource_pools: the providers of pool {pool.name} have {bought[0]} twice: "
                "give zones, markets and reservations in one section"
            )
        seen.add(kind)


def unknown_place(section: str, place: str, cloud: str, ways: str) -> InvalidConfig:
    """No section says where to buy, and this machine is not in that cloud. `ways`: to say it."""
    return InvalidConfig(
        [
            f"resource_pools: a provider of type {section} has no {place}, "
            f"and this machine is not in {cloud}: {ways}"
        ],
        what="master configuration",
    )
