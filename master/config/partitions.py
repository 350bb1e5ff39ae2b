"""The pools that a resource manager of type slurm or pbs stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from master.config.resource_managers import BatchResourceManager
from master.core.expconf.container_defaults import merge_container_defaults
from provisioner.sections.batch import BatchSection, HpcSection, PbsSection, SiteKeys, SlurmSection
from provisioner.sections.pools import PoolSection


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of Slurm, a queue of PBS."""

    name: str
    is_default: bool = False
    is_open: bool = True
    has_gpus: bool = False


def pool_sections(
    manager: BatchResourceManager,
    written: Sequence[PoolSection],
    partitions: Sequence[Partition],
    *,
    scheme: str,
    port: int,
) -> tuple[PoolSection, ...]:
    """One for each partition, then those that are `written`. `scheme`, `port`: of this master."""
    names = {section.pool_name for section in written}
    found = (
        PoolSection(pool_name=one.name, provider=HpcSection(type="hpc", partition=one.name))
        for one in partitions
        if one.name not in names
    )
    return tuple(
        _completed(section, manager, scheme=scheme, port=port) for section in (*found, *written)
    )


def _completed(
    section: PoolSection, manager: BatchResourceManager, *, scheme: str, port: int
) -> PoolSection:
    hpc = section.hpc
    if hpc is None:
        own = tuple(
            _with_keys_of(manager.provider(one.where, scheme=scheme, port=port), one)
            if isinstance(one, SlurmSection | PbsSection) and one.type == manager.type
            else one
            for one in section.all_providers
        )
        return section.model_copy(update={"provider": None, "providers": own})
    other = manager.override(hpc.partition)
    return section.model_copy(
        update={
            "description": section.description or other.description,
            "provider": manager.provider(hpc.partition, scheme=scheme, port=port),
            "providers": (),
            "task_container_defaults": merge_container_defaults(
                section.task_container_defaults or {}, other.task_container_defaults or {}
            ),
        }
    )


def _with_keys_of(manager: BatchSection, section: BatchSection) -> BatchSection:
    """What a section of the same batch system does not say is as the resource manager says."""
    theirs = SiteKeys.model_fields.keys() - section.model_fields_set
    if section.is_pilot:
        theirs -= {"walltime"}
    return section.model_copy(update={key: getattr(manager, key) for key in theirs})


def default_partition(partitions: Sequence[Partition], *, aux: bool) -> str | None:
    """The site's; for work without slots (`aux`) one without GPUs, if there is one. None: the site has no default."""
    default = next((one for one in partitions if one.is_default), None)
    if aux and (default is None or default.has_gpus):
        without = (one for one in partitions if one.is_open and not one.has_gpus)
        default = next(without, default)
    return None if default is None else default.name


def unknown_names(manager: BatchResourceManager, partitions: Sequence[Partition]) -> Iterator[str]:
    """One sentence for each override that is of no partition."""
    known = {one.name.lower() for one in partitions}
    for name in manager.partition_overrides:
        if name.lower() not in known:
            yield (
                f"resource_manager.partition_overrides.{name} has no effect: there is no such partition "
                f"(there are {', '.join(one.name for one in partitions)})"
            )
