"""Whether a pool could buy what it is configured to buy: asked of Google by reads, nothing is made.

Google has no dry runs. It answers which permissions somebody has in a project; those that may be given elsewhere (on an
image, an account, the network of another project) show at the launch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from provisioner.money.price_book import PriceBook
from provisioner.providers.findings import CloudFinding, optional
from provisioner.providers.gcp.catalogue import Catalogue, learn
from provisioner.providers.gcp.client import GceError, GcpClient
from provisioner.providers.gcp.errors import refused_call
from provisioner.providers.gcp.names import quota_family, quota_metric
from provisioner.providers.gcp.offers import facts_of
from provisioner.providers.gcp.permissions import PERMISSIONS
from provisioner.providers.gcp.prices import COMPUTE_ENGINE
from provisioner.providers.gcp.site import GcpSite
from provisioner.providers.web_pages import without_page
from provisioner.sections.gcp import GcpMachines, GcpSection
from provisioner.types import Market
from windlass.base.errors import WindlassError
from windlass.base.permissions import Permission

_NOT_OF_THE_PROJECT = {"compute.images.useReadOnly", "iam.serviceAccounts.actAs"}
_OF_THE_NETWORK = {"compute.subnetworks.use", "compute.subnetworks.useExternalIp"}


async def check(
    site: GcpSite, pools: Sequence[GcpMachines], prices: PriceBook
) -> Sequence[CloudFinding]:
    """Never raises: what cannot be asked is a finding."""
    client = GcpClient(site)
    client.open()
    try:
        return [finding async for finding in _findings(client, site, pools, prices)]
    finally:
        client.close()


async def _findings(
    client: GcpClient, site: GcpSite, pools: Sequence[GcpMachines], prices: PriceBook
) -> AsyncIterator[CloudFinding]:
    try:
        catalogue = await learn(client, site.region, [each.section for each in pools], 0.0)
    except (GceError, WindlassError, OSError) as error:
        yield CloudFinding(what=f"{site.name}: credentials", problems=(_text(error),))
        return
    yield CloudFinding(what=f"{site.name}: credentials (project {client.project})")
    async for finding in _permissions(client, site, pools):
        yield finding
    yield await _prices(client, site)
    for each in pools:
        section = each.section
        problems = (*_zones(site, section, catalogue), *_reservations(section, catalogue))
        what = f"{site.name}: {section.kind} for pool {each.pool}"
        yield CloudFinding(what=what, problems=problems)
    try:
        region = await client.call("Regions", "get", region=site.region)
    except (GceError, WindlassError, OSError) as error:
        yield CloudFinding(what=f"{site.name}: quotas", problems=(_text(error),))
        return
    limits = {quota.metric: quota.limit for quota in region.quotas}
    short = [text for each in pools for text in _quotas(site, each, catalogue, prices, limits)]
    yield CloudFinding(what=f"{site.name}: quotas", problems=tuple(dict.fromkeys(short)))


async def _permissions(
    client: GcpClient, site: GcpSite, pools: Sequence[GcpMachines]
) -> AsyncIterator[CloudFinding]:
    used = {"", *(feature for machines in pools for feature in _features(machines))}
    elsewhere = _NOT_OF_THE_PROJECT | (
        _OF_THE_NETWORK
        if any("/" in machines.section.network_interface.subnetwork for machines in pools)
        else set()
    )
    wanted = [each for each in PERMISSIONS if each.action not in elsewhere]
    what = f"{site.name}: permissions"
    try:
        granted = await client.granted([each.action for each in wanted])
    except (GceError, WindlassError, OSError) as error:
        # Launches need no permission to ask for permissions.
        yield CloudFinding(what=f"{what}: not known, {_text(error)}")
        return
    yield CloudFinding(what=what, problems=tuple(_missing(wanted, granted, used)))
    yield optional(site.name, "bake", list(_missing(wanted, granted, {"bake"})))


async def _prices(client: GcpClient, site: GcpSite) -> CloudFinding:
    """Anybody may read the catalogue of a project whose Cloud Billing API is on."""
    try:
        path = f"v1/{COMPUTE_ENGINE}/skus"
        await client.get_all(path, "skus", list, most_pages=1, pageSize=1)
    except (GceError, WindlassError, OSError) as error:
        return optional(site.name, "price_refresh", [_text(error)])
    return optional(site.name, "price_refresh", [])


def _missing(
    wanted: Sequence[Permission], granted: Collection[str], features: Collection[str]
) -> Iterator[str]:
    for each in wanted:
        if each.feature in features and each.action not in granted:
            yield f"{each.action} is needed to {each.why}: add it to the role of the master's account"


def _features(machines: GcpMachines) -> Iterator[str]:
    section = machines.section
    if section.network_interface.external_ip:
        yield "network_interface.external_ip"
    if machines.may_stop:
        yield "stopped_agents"
    if section.placement_policy:
        yield "placement_policy"
    if section.reservations:
        yield "reservations"


def _zones(site: GcpSite, section: GcpSection, catalogue: Catalogue) -> Iterator[str]:
    """Every zone that is named; without names at least one."""
    machine, zones = section.instance_type, section.all_zones
    for zone in zones:
        if zone not in catalogue.zones:
            near = get_close_matches(zone, catalogue.zones, n=1)
            yield f"there is no zone {zone}{f': did you mean {near[0]}?' if near else ''}"
        elif not catalogue.sells(machine, zone):
            yield f"{zone} has no {section.kind}: leave the zone out"
    if not zones and not any(catalogue.sells(machine, z) for z in catalogue.zones):
        yield f"no zone of {site.region} has {section.kind}: use another type or region"


def _reservations(section: GcpSection, catalogue: Catalogue) -> Iterator[str]:
    for name in section.reservations:
        found = catalogue.reservations.get(name)
        if found is None:
            yield f"there is no reservation {name} in the zones of the pool: correct reservations"
        elif found.machine_type != section.instance_type.machine_type:
            yield f"reservation {name} is of {found.machine_type}: correct reservations"
        elif not found.is_ready:
            yield f"reservation {name} is not ready yet"


def _quotas(
    site: GcpSite,
    machines: GcpMachines,
    catalogue: Catalogue,
    prices: PriceBook,
    limits: Mapping[str, float],
) -> Iterator[str]:
    """What the region grants, beside what the pool would have at most. Quotas that Google does not list are unknown."""
    machine, most = machines.section.instance_type, machines.max_instances
    facts = facts_of(machine, catalogue, prices)
    family = quota_family(machine.machine_type, facts.gpu)
    size = facts.gpus or facts.cpus
    for market in machines.section.bought_markets:
        metric = quota_metric(family, limits, spot=market is Market.SPOT)
        limit = limits.get(metric)
        if limit is not None and size and limit < size * most:
            yield (
                f"the quota {metric} of {site.region} is {limit:g}: {int(limit // size)} of "
                f"{most} machines of pool {machines.pool} fit; ask for more in IAM > Quotas"
            )


def _text(error: Exception) -> str:
    return without_page(str(refused_call(error) if isinstance(error, GceError) else error))
