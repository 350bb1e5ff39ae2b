"""Pools whose machines come and go: their sections of master.yaml as the provisioner and its providers take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from master.config import MasterConfig, ResolvedPool
from master.prices.live import LivePrices
from master.wiring.launch_tokens import LaunchTokens
from provisioner.money.price_book import PriceBook
from provisioner.providers.base import Provider
from provisioner.providers.embedded import (
    LIST_EVERY_S,
    EmbeddedProvider,
    InstanceType,
    offer_of,
)
from provisioner.providers.embedded_instances import Instances
from provisioner.providers.embedded_queue import SiteQueue
from provisioner.sections.batch import BatchKeys
from provisioner.sections.providers import EmbeddedSection
from provisioner.types import Market, Offer, OfferKey
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import InvalidConfig

log = structlog.get_logger(__name__)

ProviderFactory = Callable[[Sequence[ResolvedPool], str], Sequence[Provider]]
"""(elastic pools, cluster id) -> where their machines come from. A provider may serve several pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedProviders:
    """A `ProviderFactory`: machines that are processes on the master's own."""

    data_dir: Path
    master_url: str
    """Where the machines reach this master."""
    master_cert: Path | None
    """A file with the certificate that it shows; None: plain HTTP."""
    tokens: LaunchTokens
    clock: Clock
    prices: LivePrices

    def __call__(self, pools: Sequence[ResolvedPool], cluster_id: str) -> Sequence[Provider]:
        """One for each site, and for each folder of a site that is not configured any more.

        Their prices follow the price book.
        """
        sites = _sites(pools, self.prices.book)
        list_every = _list_every(pools)
        root = instances_folder(self.data_dir)
        left = {
            folder.name for folder in root.glob("*") if folder.is_dir() and any(folder.iterdir())
        }
        made = tuple(
            EmbeddedProvider(
                name=site,
                root=root / site,
                cluster_id=cluster_id,
                clock=self.clock,
                types=sites.get(site, {}),
                master_url=self.master_url,
                join_token=self.tokens,
                master_cert=self.master_cert,
                list_every_s=list_every.get(site, LIST_EVERY_S),
            )
            for site in sorted({*sites, *left})
        )

        def reprice() -> None:
            sites = _sites(pools, self.prices.book)
            for provider in made:
                provider.sell(sites.get(provider.name, {}))

        self.prices.changed.append(reprice)
        return made


def instances_folder(data_dir: Path) -> Path:
    """Where embedded pools keep their instances, a folder per pool."""
    return data_dir / "instances"


async def end_embedded_instances(data_dir: Path) -> int:
    """End every instance that embedded pools of this data folder still have; how many there were.

    For a cluster that is taken down for good: its master must not run.
    """
    ended = 0
    for folder in sorted(instances_folder(data_dir).glob("*")):
        SiteQueue(folder).clear()
        instances = Instances(folder, SystemClock())
        names = instances.names()
        await asyncio.gather(*(asyncio.to_thread(instances.terminate, name) for name in names))
        ended += len(names)
    return ended


def offers_and_stock(
    pools: Sequence[ResolvedPool], prices: PriceBook
) -> tuple[dict[str, list[Offer]], dict[OfferKey, int]]:
    """What each pool may buy, and of which offers there are only so many at once. Raises InvalidConfig as `_sites`."""
    offers: dict[str, list[Offer]] = {}
    stock: dict[OfferKey, int] = {}
    for site, by_pool in _sites(pools, prices).items():
        for pool, types in by_pool.items():
            for type_ in types:
                offer = offer_of(site, type_)
                offers.setdefault(pool, []).append(offer)
                if type_.available is not None:
                    stock[offer.key] = type_.available
    return offers, stock


def embedded_of(pool: ResolvedPool) -> Sequence[EmbeddedSection]:
    return [section for section in pool.providers if isinstance(section, EmbeddedSection)]


def _sites(
    pools: Sequence[ResolvedPool], prices: PriceBook
) -> dict[str, dict[str, list[InstanceType]]]:
    """Site -> pool -> what it may buy there. Raises InvalidConfig if a site has two kinds of instance of one name."""
    sites: dict[str, dict[str, list[InstanceType]]] = {}
    problems = []
    for pool in pools:
        for section in embedded_of(pool):
            type_ = _instance_type(section, prices)
            site = sites.setdefault(section.name or pool.name, {})
            others = [other for kinds in site.values() for other in kinds]
            key = _key(type_)
            if key in map(_key, site.get(pool.name, ())) or any(
                _key(other) == key and other != type_ for other in others
            ):
                problems.append(
                    f"resource_pools: the providers of pool {pool.name} need different instance_type, zone or market, "
                    f"or different names of sites ({section.name or pool.name} has {type_.name} already)"
                )
            site.setdefault(pool.name, []).append(type_)
    if problems:
        raise InvalidConfig(problems, what="master configuration")
    return sites


def _key(type_: InstanceType) -> tuple[str, str, Market]:
    """What tells the kinds of instance of one site apart."""
    return (type_.name, type_.zone, type_.market)


def _list_every(pools: Sequence[ResolvedPool]) -> dict[str, float]:
    """Site -> the shortest pace that any of its sections asks for."""
    paces: dict[str, float] = {}
    for pool in pools:
        for section in embedded_of(pool):
            site, pace = section.name or pool.name, section.list_every.total_seconds()
            paces[site] = min(pace, paces.get(site, pace))
    return paces


def _instance_type(section: EmbeddedSection, prices: PriceBook) -> InstanceType:
    return InstanceType(
        name=section.instance_type or f"embedded-{section.slots_per_instance}",
        slots=section.slots_per_instance,
        usd_per_hour=_usd_per_hour(section, prices),
        boot_s=section.boot_time.total_seconds(),
        available=section.available,
        market=Market(section.market),
        zone=section.zone or "",
        queue_s=section.queue_time.total_seconds(),
        disk_usd_per_hour=section.disk_usd_per_hour,
    )


def _usd_per_hour(section: EmbeddedSection, prices: PriceBook) -> float:
    """What an embedded instance pretends to cost: as configured, else as the machine that it is named after."""
    if section.usd_per_hour is not None:
        return section.usd_per_hour
    found = prices.find(section.instance_type or "")
    if found is None:
        return 0.0
    cloud, _ = found
    region = prices.reference_region(cloud)
    return prices.price(cloud, region, section.instance_type or "").usd_per_hour


def uses_prices(pool: ResolvedPool, prices: PriceBook) -> bool:
    """Whether anything of the pool costs what the price book says."""
    return any(
        not isinstance(section, BatchKeys)
        and section.usd_per_hour is None
        and (
            not isinstance(section, EmbeddedSection)
            or prices.find(section.instance_type or "") is not None
        )
        for section in pool.providers
    )


def live_prices(config: MasterConfig, data_dir: Path, clock: Clock) -> LivePrices:
    """Raises InvalidConfig if the table in the data folder is malformed."""
    prices = LivePrices(data_dir, config.prices.rules())
    if any(uses_prices(pool, prices.book) for pool in config.pools()):
        prices.warn_daily(clock, config.prices.stale_after)
    return prices
