"""Elastic pools whose machines are batch jobs: their sections of master.yaml as the provider of pilots takes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from master.config import ResolvedPool
from master.wiring.batch.pools import SiteAccess, files_of
from provisioner.leases.job_views import BatchJobView
from provisioner.ports import PilotHost
from provisioner.providers.base import Provider
from provisioner.providers.pilots.book import Pilot, PilotBook
from provisioner.providers.pilots.offers import PilotOptions
from provisioner.providers.pilots.provider import PilotProvider
from provisioner.sections.batch import BatchKeys, BatchSection
from windlass.base.clock import Clock

FOLDER = "pilots"
"""In the data folder: what was submitted."""


def batch_sections(pools: Sequence[ResolvedPool]) -> list[BatchSection]:
    """Of whichever mode: they are of one site."""
    dispatched = [pool.batch for pool in pools if pool.batch is not None]
    return [*dispatched, *(section for _, section in pilots_of(pools))]


def pilots_of(pools: Sequence[ResolvedPool]) -> Iterator[tuple[ResolvedPool, BatchSection]]:
    for pool in pools:
        for section in pool.providers:
            if isinstance(section, BatchKeys):
                yield pool, section


@dataclass(frozen=True, kw_only=True)
class PilotProviders:
    """A `ProviderFactory`."""

    data_dir: Path
    master_url: str
    """Where the nodes reach this master."""
    master_cert: Path | None
    """A file with the certificate that it shows; None: plain HTTP."""
    token: Callable[[Pilot], str]
    clock: Clock
    check_lease: Callable[[], Awaitable[None]]
    """Raises LeaseLost if another master leads by now."""
    host: PilotHost
    site: SiteAccess | None
    """None: the configuration has no batch system."""
    made: list[PilotProvider] = field(default_factory=list)

    def __call__(self, pools: Sequence[ResolvedPool], cluster_id: str) -> Sequence[Provider]:
        """One for the site. Without such a pool, too, while jobs of one that is not configured any more are left."""
        bought = list(pilots_of(pools))
        book = PilotBook(self.data_dir / FOLDER)
        site = self.site
        if site is None or not (bought or any(True for _ in book)):
            return ()
        options = [
            PilotOptions(
                pool=pool.name,
                section=section,
                files=files_of(
                    section,
                    disk=site.disk,
                    data_dir=self.data_dir,
                    master_url=self.master_url,
                    master_cert=self.master_cert,
                ),
            )
            for pool, section in bought
        ]
        provider = PilotProvider(
            name=site.system.name,
            system=site.system,
            disk=site.disk,
            pools=options,
            book=book,
            token=self.token,
            clock=self.clock,
            cluster_id=cluster_id,
            check_lease=self.check_lease,
            host=self.host,
        )
        self.made.append(provider)
        return (provider,)

    def is_live(self, tag: str) -> bool:
        """Whether agents may still join with the token of that job."""
        return any(provider.is_live(tag) for provider in self.made)

    def batch_jobs(self) -> Sequence[BatchJobView]:
        """Those that are not over."""
        return [view for provider in self.made for view in provider.batch_jobs()]

    def may_be_away(self, agent_id: str) -> bool:
        """It is not lost for not being connected now."""
        return any(provider.may_be_away(agent_id) for provider in self.made)
