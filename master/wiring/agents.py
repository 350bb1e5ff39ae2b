"""Pools of master.yaml as the resource managers take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from master.config import MasterConfig, ResolvedPool
from master.core.fall_back import FallBackRule
from master.wiring.batch.pilots import FOLDER as PILOTS
from provisioner.providers.pilots.book import PilotBook
from provisioner.providers.pilots.times import MARGIN_S, STAGGER, WALLTIME_S
from provisioner.sections.pools import pilot_side
from rm_backends.auto_modes import PilotSide


def all_pools(config: MasterConfig, data_dir: Path) -> list[ResolvedPool]:
    """The pools of the configuration, and those of pilots that are kept for what runs there.

    A pool that leaves mode auto has no side of pilots any more. While jobs of that side are not over their pool is
    kept: what runs there goes on, and nothing new comes. It is gone at the first start after they are.
    """
    pools = {pool.name: pool for pool in config.pools()}
    left = {pilot.pool for pilot in PilotBook(data_dir / PILOTS) if pilot.ended_at is None}
    closed = [
        _closed(home, pilot_side(home.name))
        for home in pools.values()
        if pilot_side(home.name) in left and pilot_side(home.name) not in pools
    ]
    return [*pools.values(), *closed]


def _closed(home: ResolvedPool, name: str) -> ResolvedPool:
    why = (
        f"resource pool '{name}' only finishes what runs there, as pool '{home.name}' is not of mode auto any more: "
        f"use '{home.name}'"
    )
    section = home.section.model_copy(update={"pool_name": name})
    return replace(home, section=section, closed=why)


def fall_back_rules(config: MasterConfig) -> dict[str, FallBackRule]:
    """By pool."""
    return {pool.name: pool.fall_back for pool in config.pools()}


def pilot_sides(config: MasterConfig) -> dict[str, PilotSide]:
    """Of the pools of mode auto."""
    return {
        section.pool_name: PilotSide(
            pool=pilot_side(section.pool_name), lasts_s=longest_s(section.batch.walltimes)
        )
        for section in config.pool_sections()
        if section.batch is not None and section.is_auto
    }


def longest_s(walltimes: Sequence[timedelta]) -> float:
    """How long a pilot is of use, the longest of these."""
    whole = max((each.total_seconds() for each in walltimes), default=WALLTIME_S)
    return whole * (1 - STAGGER) - MARGIN_S
