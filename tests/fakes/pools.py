"""Pools of the configuration, as a cluster without sections of its own resolves them."""

from __future__ import annotations

from master.config import ResolvedPool
from master.config.pools import PoolSection
from master.config.providers import ProviderSection
from master.core.scheduler.types import SchedulerSettings


def resolved_pool(name: str, *providers: ProviderSection) -> ResolvedPool:
    section = PoolSection(pool_name=name, providers=providers)
    return ResolvedPool(section=section, scheduler=SchedulerSettings())
