"""Pools of the configuration, as a cluster without sections of its own resolves them."""

from __future__ import annotations

from typing import Any

from master.core.scheduler.types import SchedulerSettings
from provisioner.sections.pools import PoolSection, ResolvedPool
from provisioner.sections.providers import EmbeddedSection, ProviderSection

EMBEDDED = EmbeddedSection(type="embedded")


def resolved_pool(
    name: str,
    *providers: ProviderSection,
    scheduler: SchedulerSettings = SchedulerSettings(),  # noqa: B008 -- frozen
    closed: str = "",
    **keys: Any,
) -> ResolvedPool:
    """`keys`: of its section."""
    section = PoolSection(pool_name=name, providers=providers, **keys)
    return ResolvedPool(section=section, scheduler=scheduler, closed=closed)
