"""The batch system of a master, once for all that ask it: the jobs of its pools, and pilots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from master.config import ResolvedPool
from master.wiring.batch.pilots import batch_sections, pilots_of
from master.wiring.batch.pools import Site, site_of
from provisioner.batch.base import DISPATCHED, PILOTS, job_prefix
from provisioner.batch.shared_site import SharedSite
from windlass.base.clock import Clock


class BatchSite:
    """One connection; one list of jobs, where both kinds of pools are there."""

    def __init__(self, site: Site, shared: SharedSite | None = None) -> None:
        self._site = site
        self._shared = shared

    @classmethod
    def of(cls, pools: Sequence[ResolvedPool], cluster_id: str, clock: Clock) -> BatchSite | None:
        """None: no pool has one. Raises InvalidConfig."""
        sections = batch_sections(pools)
        if not sections:
            return None
        site = site_of(sections)
        if not any(pool.batch for pool in pools) or not any(pilots_of(pools)):
            return cls(site)
        prefixes = job_prefix(DISPATCHED, cluster_id), job_prefix(PILOTS, cluster_id)
        return cls(site, SharedSite(site.system, prefixes, clock))

    def part(self) -> Site:
        """For one that asks."""
        if self._shared is None:
            return self._site
        return replace(self._site, system=self._shared.part())
