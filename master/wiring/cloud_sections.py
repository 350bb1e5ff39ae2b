"""What is read alike from the provider sections of every cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from master.config import ResolvedPool
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.gcp.site import GcpSite
from provisioner.sections.cloud import PoolMachines, SectionT
from windlass.base.errors import InvalidConfig

PlaceT = TypeVar("PlaceT", AwsAccount, GcpSite)


def places_of(
    pools: Sequence[ResolvedPool],
    kind: type[SectionT],
    placed: Callable[[SectionT], tuple[PlaceT, SectionT]],
    shared: Sequence[str] = ("name",),
) -> Mapping[PlaceT, Sequence[PoolMachines[SectionT]]]:
    """What is bought where. Raises InvalidConfig with every contradiction between sections.

    `placed`: where a section buys, not named yet, and the section with that filled in. `shared`: keys in which sections
    of one place do not differ.
    """
    bought: dict[PlaceT, list[PoolMachines[SectionT]]] = {}
    for pool in pools:
        for section in pool.providers:
            if isinstance(section, kind):
                place, filled = placed(section)
                bought.setdefault(place, []).append(_machines(pool, filled))
    named: dict[PlaceT, Sequence[PoolMachines[SectionT]]] = {}
    problems: list[str] = []
    for place, machines in bought.items():
        for key in shared:
            found = {value for each in machines if (value := getattr(each.section, key))}
            if len(found) > 1:
                told = ", ".join(sorted(found))
                problems.append(f"resource_pools: {key} of {place.where} differ ({told}): give one")
        problems += _repeated(machines)
        names = {each.section.name for each in machines if each.section.name}
        name = min(names, default=place.default_name)
        if any(other.name == name for other in named):
            problems.append(
                f"resource_pools: {name} names several {place.plural}: give each its own name"
            )
        named[replace(place, name=name)] = machines
    if problems:
        raise InvalidConfig(problems, what="master configuration")
    return named


def unknown_place(section: str, place: str, cloud: str, ways: str) -> InvalidConfig:
    """No section says where to buy, and this machine is not in that cloud. `ways`: to say it."""
    return InvalidConfig(
        [
            f"resource_pools: a provider of type {section} has no {place}, "
            f"and this machine is not in {cloud}: {ways}"
        ],
        what="master configuration",
    )


def _machines(pool: ResolvedPool, section: SectionT) -> PoolMachines[SectionT]:
    return PoolMachines(
        pool=pool.name,
        section=section,
        max_instances=pool.settings.max_instances,
        may_stop=pool.settings.stopped.is_on,
        open_metadata=pool.task_metadata == "direct",
    )


def _repeated(machines: Sequence[PoolMachines[SectionT]]) -> Iterator[str]:
    """Pools that buy the same machine by two sections."""
    kinds = [(each.pool, each.section.kind) for each in machines]
    for at, (pool, kind) in enumerate(kinds):
        if (pool, kind) in kinds[:at]:
            yield (
                f"resource_pools: the providers of pool {pool} have {kind} twice: "
                "give zones, markets and reservations in one section"
            )
