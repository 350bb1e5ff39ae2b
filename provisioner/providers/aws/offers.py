"""What one kind of machine of a pool is, in each zone and market, at which price. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provisioner.money.price_book import PriceBook
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.catalogue import (
    Catalogue,
    MachineImage,
    Subnet,
    TypeFacts,
    image_path,
)
from provisioner.providers.aws.names import quota_code, quota_family, quota_name
from provisioner.sections.aws import AwsMachines, AwsNetwork, AwsSection
from provisioner.types import Market, Offer, OfferKey, Quota

BOOT_DEADLINE_S = 300.0
BOOT_DEADLINE_FACTOR = 3.0
SPOT_INTERRUPTIONS_PER_HOUR = 0.01
"""AWS publishes shares of a month's machines: 5 to 20 % are 1e-4 to 3e-4; machines with several GPUs fare worse."""
LEAST_BILLED_S = 60.0
"""Machines of Linux are billed by the second, from the second minute on."""
ROOT_DISK = "gp3"
"""Of every machine."""
CLOUD = "aws"
DOUBTED = "EC2's spot price of"


def image_of(section: AwsSection, facts: TypeFacts, catalogue: Catalogue) -> MachineImage | None:
    id_ = section.image_id or catalogue.parameters.get(image_path(section, facts), "")
    return catalogue.images.get(id_)


def facts_of(section: AwsSection, catalogue: Catalogue, prices: PriceBook) -> TypeFacts:
    """As EC2 says; else as the price book knows."""
    name = section.instance_type
    if name in catalogue.types:
        return catalogue.types[name]
    known = prices.machine(CLOUD, name)
    if known is None:
        return TypeFacts(name=name, gpus=section.instance_slots or 0)
    return TypeFacts(
        name=name,
        gpus=known.gpus,
        gpu_model=known.gpu_model,
        gpu_memory_mib=known.gpu_memory_mib,
        cpus=int(known.cpus or 0),
        memory_mib=known.memory_mib or 0,
        network_gbps=known.network_gbps,
    )


def slots_of(section: AwsSection, facts: TypeFacts) -> int:
    if section.instance_slots is not None:
        return section.instance_slots
    return facts.gpus or int(section.cpu_slots_allowed)


def zones_of(section: AwsSection, catalogue: Catalogue) -> tuple[str, ...]:
    """Where it can be launched: zones with a subnet, that are wanted, and that have the type.

    If no zone has the type, all of them: EC2 itself then says so, with a reason that is shown.
    """
    if section.all_subnets:
        found = {catalogue.subnets[x].zone for x in section.all_subnets if x in catalogue.subnets}
        # A subnet that does not exist must not make the pool silently smaller: see `request`.
        found = found or set(catalogue.default_subnets)
    else:
        found = set(catalogue.default_subnets)
    wanted = found & set(section.zones) if section.zones else found
    wanted = wanted or set(section.zones)
    sold = {zone for zone in wanted if (section.instance_type, zone) in catalogue.sold}
    return tuple(sorted(sold or wanted))


def expected_offers(
    account: AwsAccount, machines: AwsMachines, prices: PriceBook
) -> Sequence[Offer]:
    """Before EC2 was asked: as the configuration and the price book say, in a zone without a name."""
    zones = machines.section.zones or ("",)
    subnets = {zone: Subnet(id="", zone=zone, network="") for zone in zones}
    markets = machines.section.bought_markets or (Market.RESERVED,)
    anywhere = machines.but(subnets=(), network_interface=AwsNetwork(), markets=markets)
    return offers_of(account, anywhere, Catalogue(default_subnets=subnets), prices, now=0.0)


def offers_of(
    account: AwsAccount, machines: AwsMachines, catalogue: Catalogue, prices: PriceBook, now: float
) -> Sequence[Offer]:
    """Cheapest kind first: reservations, then what everybody may buy."""
    section = machines.section
    facts = facts_of(section, catalogue, prices)
    image = image_of(section, facts, catalogue)

    def offer(key: OfferKey, usd: float, origin: str = "", **more: float | None) -> Offer:
        return Offer(
            price_origin=origin,
            key=key,
            slots=slots_of(section, facts),
            usd_per_hour=usd,
            boot_s=section.boot_s,
            boot_deadline_s=max(BOOT_DEADLINE_S, BOOT_DEADLINE_FACTOR * section.boot_s),
            family=quota_family(facts.name),
            gpu_model=facts.gpu_model,
            gpu_memory_mib=facts.gpu_memory_mib,
            cpus=facts.cpus or None,
            memory_mib=facts.memory_mib or None,
            network_gbps=facts.network_gbps,
            image=section.image_id if image is None else image.id,
            interruptions_per_hour=(
                SPOT_INTERRUPTIONS_PER_HOUR if key.market is Market.SPOT else 0.0
            ),
            ends_at=more.get("ends_at"),
            quota=quota_of(facts, key.market, catalogue),
            least_billed_s=LEAST_BILLED_S,
            can_stop=machines.may_stop and key.market is Market.ON_DEMAND,
            disk_usd_per_hour=prices.disk_usd_per_hour(
                CLOUD, account.region, ROOT_DISK, section.root_volume_size
            ),
        )

    def key(zone: str, market: Market, reservation: str = "") -> OfferKey:
        return OfferKey(
            provider=account.name,
            region=account.region,
            zone=zone,
            instance_type=section.instance_type,
            market=market,
            reservation=reservation,
            placement=section.placement_group,
        )

    def reserved() -> Iterator[Offer]:
        for id_ in section.reservations:
            found = catalogue.reservations.get(id_)
            if found is None or found.instance_type != section.instance_type:
                continue
            if found.starts_at is not None and found.starts_at > now:
                continue  # refreshed facts offer it when it has begun
            if found.ends_at is not None and found.ends_at <= now:
                continue
            market = Market.CAPACITY_BLOCK if found.is_block else Market.RESERVED
            ends_at = found.ends_at if found.is_block else None
            yield offer(key(found.zone, market, id_), 0.0, ends_at=ends_at)

    def open_to_all() -> Iterator[Offer]:
        for zone in zones_of(section, catalogue):
            for market in section.bought_markets:
                usd, origin = price_of(account, section, facts, zone, market, catalogue, prices)
                yield offer(key(zone, market), usd, origin)

    return (*reserved(), *open_to_all())


def quota_of(facts: TypeFacts, market: Market, catalogue: Catalogue) -> Quota | None:
    """In vCPUs, which are all that AWS tells: what runs is not counted. Reservations have counted already."""
    family, spot = quota_family(facts.name), market is Market.SPOT
    limit = catalogue.quotas.get(quota_code(family, spot=spot))
    if limit is None or not facts.cpus or market not in (Market.SPOT, Market.ON_DEMAND):
        return None
    return Quota(name=quota_name(family, spot=spot), left=limit, each=facts.cpus, counted_at=0.0)


def price_of(
    account: AwsAccount,
    section: AwsSection,
    facts: TypeFacts,
    zone: str,
    market: Market,
    catalogue: Catalogue,
    prices: PriceBook,
) -> tuple[float, str]:
    """And where it is from.

    On demand as configured, else as the price book says; spot as EC2 says, unless the operator overrides it or that
    cannot be.
    """
    name = section.instance_type
    if market is Market.ON_DEMAND and section.usd_per_hour is not None:
        return section.usd_per_hour, "usd_per_hour of the pool"
    listed = prices.price(CLOUD, account.region, name, market, gpus=facts.gpus)
    spot = catalogue.spot_usd.get((name, zone))
    if market is not Market.SPOT or listed.note == "override" or not spot:
        return listed.usd_per_hour, listed.origin
    if doubt := prices.doubt(CLOUD, account.region, name, market, spot):
        return listed.usd_per_hour, f"{listed.origin}; {DOUBTED} {doubt}"
    return spot, "EC2's spot prices"
