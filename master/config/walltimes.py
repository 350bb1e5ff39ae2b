"""Walltimes in which work would get nowhere: told when master.yaml is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from master.config.batch import BatchKeys, SiteKeys
from master.config.model import MasterConfig
from master.core.scheduler.end_times import LEAST_WALLTIME_S
from provisioner.providers.pilots.times import LEAST_PILOT_S
from windlass.base.durations import format_duration


def short_walltimes(config: MasterConfig) -> Iterator[str]:
    """One line for each that is too short."""
    if isinstance(config.resource_manager, SiteKeys):
        yield from _short("resource_manager", config.resource_manager)
    for index, pool in enumerate(config.resource_pools):
        for section in pool.all_providers:
            if isinstance(section, SiteKeys):
                yield from _short(f"resource_pools[{index}].provider", section)


def _short(where: str, section: SiteKeys) -> Iterator[str]:
    least, pilot = timedelta(seconds=LEAST_WALLTIME_S), timedelta(seconds=LEAST_PILOT_S)
    if section.walltime is not None and section.walltime < least:
        yield (
            f"{where}.walltime: {format_duration(section.walltime)} is too short for work to start, save a checkpoint "
            f"and leave: give at least {format_duration(least)}, unless all work ends within that time"
        )
    for given in section.walltimes if isinstance(section, BatchKeys) else ():
        if given < pilot:
            yield (
                f"{where}.walltimes: no work of unknown length starts on a pilot of {format_duration(given)}: "
                f"give at least {format_duration(pilot)}"
            )
