"""The batch system of a master, once for all that ask it, and what the master runs for nodes without a way to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from agent_bootstrap.channels.streams import connected
from master.config import MasterConfig, ResolvedPool
from master.wiring.batch.keys import OF_RELAY, channels_of, jobs_root
from master.wiring.batch.pilots import batch_sections, pilots_of
from master.wiring.batch.pools import SiteAccess, site_of
from provisioner.batch.base import DISPATCHED, PILOTS, job_prefix
from provisioner.batch.relay_keeper import RelayKeeper
from provisioner.batch.shared_site import SharedSite
from provisioner.sections.batch import BatchSection
from windlass.base.clock import Clock


def relay_keepers(
    config: MasterConfig, data_dir: Path, master_url: str, *, own_tls: bool
) -> list[RelayKeeper]:
    """One for each folder of jobs."""
    sections = batch_sections(config.pools())
    wanted = {
        str(jobs_root(section, data_dir)): section
        for section in sections
        if OF_RELAY.intersection(channels_of(section, section.master_url or master_url))
    }
    if not wanted:
        return []
    host, port = own_place(config, master_url, own_tls=own_tls)
    pipes = site_of(sections).pipes
    return [
        RelayKeeper(
            pipes,
            python=section.python or sys.executable,
            root=root,
            dial=lambda _: connected(host, port),
            arguments=_arguments(section),
        )
        for root, section in wanted.items()
    ]


def own_place(config: MasterConfig, master_url: str, *, own_tls: bool) -> tuple[str, int]:
    """Where this machine reaches what has the master's certificate: the master, or a proxy before it."""
    if not own_tls:
        parts = urlsplit(master_url)
        return parts.hostname or "", parts.port or 443
    everywhere = config.host in ("0.0.0.0", "::")  # noqa: S104
    return ("127.0.0.1" if everywhere else config.host), config.port


def _arguments(section: BatchSection) -> list[str]:
    """Of the relay."""
    host = section.login_host.rpartition("@")[2].partition(":")[0]
    named = ["--host", host] if host else []
    return [*named, *(["--port", str(section.relay_port)] if section.relay_port else [])]


class BatchSite:
    """One connection; one list of jobs, where both kinds of pools are there."""

    def __init__(self, site: SiteAccess, shared: SharedSite | None = None) -> None:
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

    def part(self) -> SiteAccess:
        """For one that asks."""
        if self._shared is None:
            return self._site
        return replace(self._site, system=self._shared.part())
