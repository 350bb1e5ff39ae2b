"""What one kind of machine of a pool is, in each zone and market, at which price. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from provisioner.money.price_book import PriceBook
from provisioner.providers.gcp.catalogue import Catalogue, TypeFacts
from provisioner.providers.gcp.names import last, quota_family, quota_metric, short
from provisioner.providers.gcp.site import IMAGE_CPU, IMAGE_GPU, GcpSite
from provisioner.sections.gcp import GcpMachine, GcpMachines, GcpSection
from provisioner.types import Market, Offer, OfferKey, Quota

BOOT_DEADLINE_S = 300.0
BOOT_DEADLINE_FACTOR = 3.0
SPOT_INTERRUPTIONS_PER_HOUR = 0.02
"""Google publishes no rates. Machines with several GPUs are taken back about twice as often as on AWS."""
LEAST_BILLED_S = 60.0
"""Machines are billed by the second, from the second minute on."""
CLOUD = "gcp"


def facts_of(machine: GcpMachine, catalogue: Catalogue, prices: PriceBook) -> TypeFacts:
    """As Google says, the same in every zone; else as the price book knows. With the GPUs that are added."""
    found = [facts for (name, _), facts in catalogue.types.items() if name == machine.machine_type]
    known = prices.machine(CLOUD, machine.machine_type)
    if found:
        facts = found[0]
    elif known is not None:
        facts = TypeFacts(
            gpu=known.gpu_model,
            gpus=known.gpus,
            cpus=int(known.cpus or 0),
            memory_mib=known.memory_mib or 0,
        )
    else:
        facts = TypeFacts()
    gpu, gpus = machine.added
    return replace(facts, gpu=gpu, gpus=gpus) if gpu else facts


def image_of(section: GcpSection, facts: TypeFacts) -> str:
    return section.boot_disk_source_image or (IMAGE_GPU if facts.gpus else IMAGE_CPU)


def expected_offers(site: GcpSite, machines: GcpMachines, prices: PriceBook) -> Sequence[Offer]:
    """Before Google was asked: as the configuration and the price book say."""
    return offers_of(site, machines, Catalogue(zones=frozenset({f"{site.region}-?"})), prices)


def offers_of(
    site: GcpSite, machines: GcpMachines, catalogue: Catalogue, prices: PriceBook
) -> Sequence[Offer]:
    """Cheapest kind first: reservations, then what everybody may buy."""
    section = machines.section
    facts = facts_of(section.instance_type, catalogue, prices)
    keys = [*_reserved(site, section, catalogue), *_open_to_all(site, section, catalogue)]
    return [_offer(key, machines, facts, catalogue, prices) for key in keys]


def quota_of(facts: TypeFacts, family: str, market: Market, catalogue: Catalogue) -> Quota | None:
    """In GPUs, or in CPUs of machines without. Reservations have counted already."""
    metric = quota_metric(family, catalogue.limits, spot=market is Market.SPOT)
    limit, each = catalogue.limits.get(metric), facts.gpus or facts.cpus
    if limit is None or not each or market not in (Market.SPOT, Market.ON_DEMAND):
        return None
    left = max(0.0, limit - catalogue.used.get(metric, 0.0))
    return Quota(name=metric, left=left, each=each, counted_at=catalogue.asked_at)


def _offer(
    key: OfferKey,
    machines: GcpMachines,
    facts: TypeFacts,
    catalogue: Catalogue,
    prices: PriceBook,
) -> Offer:
    section = machines.section
    machine_type = section.instance_type.machine_type
    spot, queued = key.market is Market.SPOT, key.market is Market.QUEUED
    model, memory_mib = _gpu(section.instance_type, facts, prices)
    family = quota_family(machine_type, facts.gpu)
    usd, origin = _price(key, section, facts, prices)
    known = prices.machine(CLOUD, machine_type)
    delivered_in = section.queue_for if queued else section.operation_timeout_period
    lifetime_s = section.lifetime_s(key.market)
    return Offer(
        key=key,
        slots=facts.gpus or int(section.cpu_slots_allowed),
        usd_per_hour=usd,
        price_origin=origin,
        boot_s=section.boot_s,
        boot_deadline_s=max(BOOT_DEADLINE_S, BOOT_DEADLINE_FACTOR * section.boot_s),
        lifetime_s=lifetime_s,
        queue_deadline_s=delivered_in.total_seconds(),
        family=family,
        quota=quota_of(facts, family, key.market, catalogue),
        least_billed_s=LEAST_BILLED_S,
        gpu_model=model,
        gpu_memory_mib=memory_mib,
        cpus=facts.cpus or None,
        memory_mib=facts.memory_mib or None,
        network_gbps=None if known is None else known.network_gbps,
        image=image_of(section, facts),
        interruptions_per_hour=SPOT_INTERRUPTIONS_PER_HOUR if spot else 0.0,
        can_stop=machines.may_stop and key.market is Market.ON_DEMAND and lifetime_s is None,
        disk_usd_per_hour=prices.disk_usd_per_hour(
            CLOUD, key.region, last(section.boot_disk_type), section.boot_disk_size
        ),
    )


def _key(
    site: GcpSite, section: GcpSection, zone: str, market: Market, reservation: str = ""
) -> OfferKey:
    return OfferKey(
        provider=site.name,
        region=site.region,
        zone=zone,
        instance_type=section.kind,
        market=market,
        reservation=reservation,
        placement=section.placement_policy,
    )


def _reserved(site: GcpSite, section: GcpSection, catalogue: Catalogue) -> list[OfferKey]:
    found = [catalogue.reservations.get(name) for name in section.reservations]
    return [
        _key(site, section, each.zone, Market.RESERVED, each.name)
        for each in found
        if each is not None
        and each.is_ready
        and each.machine_type == section.instance_type.machine_type
    ]


def _open_to_all(site: GcpSite, section: GcpSection, catalogue: Catalogue) -> list[OfferKey]:
    """In the zones that have it. If none has, in all that are wanted: Google then says so, and that is shown."""
    wanted = set(section.all_zones) or set(catalogue.zones)
    sold = {zone for zone in wanted if catalogue.sells(section.instance_type, zone)}
    return [
        _key(site, section, zone, market)
        for zone in sorted(sold or wanted)
        for market in section.bought_markets
    ]


def _gpu(machine: GcpMachine, facts: TypeFacts, prices: PriceBook) -> tuple[str, int | None]:
    """Name and memory, as jobs ask for them."""
    if not facts.gpus:
        return "", None
    gpu, _ = machine.added
    known = prices.accelerator(CLOUD, gpu) or prices.machine(CLOUD, machine.machine_type)
    if known is not None and known.gpu_model:
        return known.gpu_model, known.gpu_memory_mib
    return short(facts.gpu), None


def _price(
    key: OfferKey, section: GcpSection, facts: TypeFacts, prices: PriceBook
) -> tuple[float, str]:
    """And where it is from. Reservations are paid for anyway; else as configured, else as the price book says."""
    if key.market is Market.RESERVED:
        return 0.0, ""
    if section.usd_per_hour is not None and key.market is not Market.SPOT:
        return section.usd_per_hour, "usd_per_hour of the pool"
    machine = section.instance_type
    added, _ = machine.added
    market = Market.SPOT if key.market is Market.QUEUED else key.market
    price = prices.price(
        CLOUD, key.region, machine.machine_type, market, gpus=facts.gpus, accelerator=added
    )
    return price.usd_per_hour, price.origin
