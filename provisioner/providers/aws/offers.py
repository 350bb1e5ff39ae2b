"""What one kind of machine of a pool is, in each zone and market, at which price. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from provisioner.money.price_book import PriceBook
from provisioner.providers.aws.catalogue import Catalogue, Image, Subnet, TypeFacts, image_path
from provisioner.providers.aws.names import quota_code, quota_family, quota_name
from provisioner.providers.aws.options import Account, PoolOptions
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


def image_of(options: PoolOptions, facts: TypeFacts, catalogue: Catalogue) -> Image | None:
    id_ = options.image or catalogue.parameters.get(image_path(options, facts), "")
    return catalogue.images.get(id_)


def facts_of(options: PoolOptions, catalogue: Catalogue, prices: PriceBook) -> TypeFacts:
    """As EC2 says; else as the price book knows."""
    name = options.instance_type
    if name in catalogue.types:
        return catalogue.types[name]
    known = prices.machine(CLOUD, name)
    if known is None:
        return TypeFacts(name=name, gpus=options.slots or 0)
    return TypeFacts(
        name=name,
        gpus=known.gpus,
        gpu_model=known.gpu_model,
        gpu_memory_mib=known.gpu_memory_mib,
        cpus=int(known.cpus or 0),
        memory_mib=known.memory_mib or 0,
        network_gbps=known.network_gbps,
    )


def slots_of(options: PoolOptions, facts: TypeFacts) -> int:
    if options.slots is not None:
        return options.slots
    return facts.gpus or int(options.cpu_slot)


def zones_of(options: PoolOptions, catalogue: Catalogue) -> tuple[str, ...]:
    """Where it can be launched: zones with a subnet, that are wanted, and that have the type.

    If no zone has the type, all of them: EC2 itself then says so, with a reason that is shown.
    """
    if options.subnets:
        found = {catalogue.subnets[x].zone for x in options.subnets if x in catalogue.subnets}
        # A subnet that does not exist must not make the pool silently smaller: see `request`.
        found = found or set(catalogue.default_subnets)
    else:
        found = set(catalogue.default_subnets)
    wanted = found & set(options.zones) if options.zones else found
    wanted = wanted or set(options.zones)
    sold = {zone for zone in wanted if (options.instance_type, zone) in catalogue.sold}
    return tuple(sorted(sold or wanted))


def expected_offers(account: Account, options: PoolOptions, prices: PriceBook) -> Sequence[Offer]:
    """Before EC2 was asked: as the configuration and the price book say, in a zone without a name."""
    zones = options.zones or ("",)
    subnets = {zone: Subnet(id="", zone=zone, network="") for zone in zones}
    markets = options.markets or ((Market.RESERVED,) if options.reservations else ())
    return offers_of(
        account,
        replace(options, subnets=(), markets=markets),
        Catalogue(default_subnets=subnets),
        prices,
        now=0.0,
    )


def offers_of(
    account: Account, options: PoolOptions, catalogue: Catalogue, prices: PriceBook, now: float
) -> Sequence[Offer]:
    """Cheapest kind first: reservations, then what everybody may buy."""
    facts = facts_of(options, catalogue, prices)
    image = image_of(options, facts, catalogue)

    def offer(key: OfferKey, usd: float, origin: str = "", **more: float | None) -> Offer:
        return Offer(
            price_origin=origin,
            key=key,
            slots=slots_of(options, facts),
            usd_per_hour=usd,
            boot_s=options.boot_s,
            boot_deadline_s=max(BOOT_DEADLINE_S, BOOT_DEADLINE_FACTOR * options.boot_s),
            family=quota_family(facts.name),
            gpu_model=facts.gpu_model,
            gpu_memory_mib=facts.gpu_memory_mib,
            cpus=facts.cpus or None,
            memory_mib=facts.memory_mib or None,
            network_gbps=facts.network_gbps,
            image=options.image if image is None else image.id,
            interruptions_per_hour=(
                SPOT_INTERRUPTIONS_PER_HOUR if key.market is Market.SPOT else 0.0
            ),
            ends_at=more.get("ends_at"),
            quota=quota_of(facts, key.market, catalogue),
            least_billed_s=LEAST_BILLED_S,
            can_stop=options.may_stop and key.market is Market.ON_DEMAND,
            disk_usd_per_hour=prices.disk_usd_per_hour(
                CLOUD, account.region, ROOT_DISK, options.root_gib
            ),
        )

    def key(zone: str, market: Market, reservation: str = "") -> OfferKey:
        return OfferKey(
            provider=account.name,
            region=account.region,
            zone=zone,
            instance_type=options.instance_type,
            market=market,
            reservation=reservation,
            placement=options.placement_group,
        )

    def reserved() -> Iterator[Offer]:
        for id_ in options.reservations:
            found = catalogue.reservations.get(id_)
            if found is None or found.instance_type != options.instance_type:
                continue
            if found.starts_at is not None and found.starts_at > now:
                continue  # refreshed facts offer it when it has begun
            if found.ends_at is not None and found.ends_at <= now:
                continue
            market = Market.CAPACITY_BLOCK if found.is_block else Market.RESERVED
            ends_at = found.ends_at if found.is_block else None
            yield offer(key(found.zone, market, id_), 0.0, ends_at=ends_at)

    def open_to_all() -> Iterator[Offer]:
        for zone in zones_of(options, catalogue):
            for market in options.markets:
                usd, origin = price_of(account, options, facts, zone, market, catalogue, prices)
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
    account: Account,
    options: PoolOptions,
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
    name = options.instance_type
    if market is Market.ON_DEMAND and options.usd_per_hour is not None:
        return options.usd_per_hour, "usd_per_hour of the pool"
    listed = prices.price(CLOUD, account.region, name, market, gpus=facts.gpus)
    spot = catalogue.spot_usd.get((name, zone))
    if market is not Market.SPOT or listed.note == "override" or not spot:
        return listed.usd_per_hour, listed.origin
    if doubt := prices.doubt(CLOUD, account.region, name, market, spot):
        return listed.usd_per_hour, f"{listed.origin}; {DOUBTED} {doubt}"
    return spot, "EC2's spot prices"
