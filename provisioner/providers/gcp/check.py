"""Whether a pool could buy what it is configured to buy: asked of Google by reads, nothing is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from provisioner.price_book import PriceBook
from provisioner.providers.findings import CloudFinding
from provisioner.providers.gcp.catalogue import Catalogue, learn
from provisioner.providers.gcp.client import Client, GceError
from provisioner.providers.gcp.errors import refused_call
from provisioner.providers.gcp.names import quota_family, quota_metric
from provisioner.providers.gcp.offers import facts_of, kind_of
from provisioner.providers.gcp.options import MachineOptions, Site
from provisioner.types import Market
from windlass.base.errors import WindlassError


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one pool buys, and how much of it at most."""

    options: MachineOptions
    max_instances: int


async def check(site: Site, pools: Sequence[Wanted], prices: PriceBook) -> Sequence[CloudFinding]:
    """Never raises: what cannot be asked is a finding."""
    client = Client(site)
    client.open()
    try:
        return [finding async for finding in _findings(client, site, pools, prices)]
    finally:
        client.close()


async def _findings(
    client: Client, site: Site, pools: Sequence[Wanted], prices: PriceBook
) -> AsyncIterator[CloudFinding]:
    try:
        catalogue = await learn(client, site.region, [each.options for each in pools], 0.0)
    except (GceError, WindlassError, OSError) as error:
        yield CloudFinding(what=f"{site.name}: credentials", problems=(_text(error),))
        return
    yield CloudFinding(what=f"{site.name}: credentials (project {client.project})")
    for each in pools:
        options = each.options
        problems = (*_zones(site, options, catalogue), *_reservations(options, catalogue))
        what = f"{site.name}: {kind_of(options)} for pool {options.pool}"
        yield CloudFinding(what=what, problems=problems)
    try:
        region = await client.call("Regions", "get", region=site.region)
    except (GceError, WindlassError, OSError) as error:
        yield CloudFinding(what=f"{site.name}: quotas", problems=(_text(error),))
        return
    limits = {quota.metric: quota.limit for quota in region.quotas}
    short = [text for each in pools for text in _quotas(site, each, catalogue, prices, limits)]
    yield CloudFinding(what=f"{site.name}: quotas", problems=tuple(dict.fromkeys(short)))


def _zones(site: Site, options: MachineOptions, catalogue: Catalogue) -> Iterator[str]:
    """Every zone that is named; without names at least one."""
    for zone in options.zones:
        if zone not in catalogue.zones:
            near = get_close_matches(zone, catalogue.zones, n=1)
            yield f"there is no zone {zone}{f': did you mean {near[0]}?' if near else ''}"
        elif not catalogue.sells(options, zone):
            yield f"{zone} has no {kind_of(options)}: leave the zone out"
    if not options.zones and not any(catalogue.sells(options, z) for z in catalogue.zones):
        yield f"no zone of {site.region} has {kind_of(options)}: use another type or region"


def _reservations(options: MachineOptions, catalogue: Catalogue) -> Iterator[str]:
    for name in options.reservations:
        found = catalogue.reservations.get(name)
        if found is None:
            yield f"there is no reservation {name} in the zones of the pool: correct reservations"
        elif found.machine_type != options.machine_type:
            yield f"reservation {name} is of {found.machine_type}: correct reservations"
        elif not found.is_ready:
            yield f"reservation {name} is not ready yet"


def _quotas(
    site: Site,
    wanted: Wanted,
    catalogue: Catalogue,
    prices: PriceBook,
    limits: Mapping[str, float],
) -> Iterator[str]:
    """What the region grants, beside what the pool would have at most. Quotas that Google does not list are unknown."""
    facts = facts_of(wanted.options, catalogue, prices)
    family = quota_family(wanted.options.machine_type, facts.gpu)
    size = facts.gpus or facts.cpus
    for market in wanted.options.markets:
        metric = quota_metric(family, limits, spot=market is Market.SPOT)
        limit = limits.get(metric)
        if limit is not None and size and limit < size * wanted.max_instances:
            yield (
                f"the quota {metric} of {site.region} is {limit:g}: {int(limit // size)} of "
                f"{wanted.max_instances} machines of pool {wanted.options.pool} fit; ask for more in IAM > Quotas"
            )


def _text(error: Exception) -> str:
    return str(refused_call(error) if isinstance(error, GceError) else error)
