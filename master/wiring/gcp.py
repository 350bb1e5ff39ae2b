"""Sections of type gcp as the provider of Compute Engine takes them: one provider for each project and region."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agent_bootstrap.scripts.user_data import Cloud
from master.config import ResolvedPool
from master.config.gcp import GcpSection
from master.prices.live import LivePrices
from master.wiring.cloud_boot import CloudBoot
from master.wiring.cloud_sections import repeated, sections_of, unknown_place
from provisioner.providers.base import Provider
from provisioner.providers.gcp.metadata import own_zone
from provisioner.providers.gcp.names import last, region_of
from provisioner.providers.gcp.options import MachineOptions, Site
from provisioner.providers.gcp.provider import GcpProvider
from windlass.base.clock import Clock
from windlass.base.errors import InvalidConfig
from windlass.base.json_types import JsonMapping

ENDPOINT_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"
"""As gcloud has it: another address of the API. Without TLS it is sent no credentials."""
ZONE_VARIABLE = "CLOUDSDK_COMPUTE_ZONE"

Bought = Sequence[tuple[ResolvedPool, GcpSection]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpProviders:
    """A `ProviderFactory`."""

    boot: CloudBoot
    clock: Clock
    prices: LivePrices

    def __call__(self, pools: Sequence[ResolvedPool], cluster_id: str) -> Sequence[Provider]:
        """Raises InvalidConfig with every problem. Nothing is asked of Google yet, but the zone if nobody says it."""
        made = tuple(
            GcpProvider(
                site=site,
                pools=[
                    options_of(pool, section, self.boot.settings(section, pool.name))
                    for pool, section in bought
                ],
                cluster_id=cluster_id,
                clock=self.clock,
                prices=self.prices.book,
                user_data=partial(self.boot.user_data, Cloud.GCP),
            )
            for site, bought in sites_of(pools).items()
        )
        self.prices.serve(made)
        return made


def sites_of(
    pools: Sequence[ResolvedPool], default: Callable[[], str] | None = None
) -> Mapping[Site, Bought]:
    """Which pools buy from which project and region. Raises InvalidConfig where sections contradict each other.

    `default`: the zone of sections that give none; None: `default_zone`.
    """
    bought: dict[tuple[str, str], list[tuple[ResolvedPool, GcpSection]]] = {}
    for pool, section in sections_of(pools, GcpSection):
        region = section.own_region or region_of((default or default_zone)())
        bought.setdefault((section.project, region), []).append((pool, section))
    sites: dict[Site, Bought] = {}
    problems: list[str] = []
    for (project, region), sections in bought.items():
        names = sorted({section.name for _, section in sections if section.name})
        where = f"{region} of {project}" if project else region
        if len(names) > 1:
            problems.append(
                f"resource_pools: name of {where} differ ({', '.join(names)}): give one"
            )
        name = names[0] if names else f"gcp-{project}-{region}" if project else f"gcp-{region}"
        problems += repeated(sections, _machine)
        if any(other.name == name for other in sites):
            problems.append(
                f"resource_pools: {name} names several projects or regions: give each its own name"
            )
        sites[Site(name=name, project=project, region=region, endpoint_url=endpoint())] = sections
    if problems:
        raise InvalidConfig(problems, what="master configuration")
    return sites


def endpoint() -> str:
    """Of the API; empty: Google's own."""
    return os.environ.get(ENDPOINT_VARIABLE, "").rstrip("/").removesuffix("/compute/v1")


def default_zone() -> str:
    found = os.environ.get(ZONE_VARIABLE) or own_zone()
    if not found:
        ways = f"give zone, zones or region, or set {ZONE_VARIABLE}"
        raise unknown_place("gcp", "zone", "Compute Engine", ways)
    return found


def options_of(
    pool: ResolvedPool,
    section: GcpSection,
    boot: JsonMapping | None = None,
    *,
    default: Callable[[], str] | None = None,
) -> MachineOptions:
    """`boot`: what user data is made of; `default`: as in `sites_of`."""
    machine, network = section.instance_type, section.network_interface
    gpu, gpus = machine.added
    markets = section.bought_markets
    zones = section.all_zones
    if not zones and section.region is None:
        zones = ((default or default_zone)(),)
    longest = section.max_run_duration
    return MachineOptions(
        pool=pool.name,
        machine_type=machine.machine_type,
        gpu=gpu,
        gpus=gpus,
        cpu_slot=section.cpu_slots_allowed,
        markets=markets,
        zones=zones,
        reservations=section.reservations,
        placement=section.placement_policy,
        image=section.boot_disk_source_image,
        disk_gib=section.boot_disk_size,
        disk_type=last(section.boot_disk_type),
        network=network.network,
        subnetwork=network.subnetwork,
        external_address=network.external_ip,
        network_tags=section.network_tags,
        service_account=section.service_account.email,
        scopes=section.service_account.scopes,
        labels=tuple({**section.labels, section.label_key: section.label_value}.items()),
        name_prefix=section.name_prefix or "windlass-",
        base=section.base_config,
        max_run_s=None if longest is None else longest.total_seconds(),
        operation_timeout_s=section.operation_timeout_period.total_seconds(),
        queue_deadline_s=section.queue_for.total_seconds(),
        may_stop=pool.stopped.is_on,
        boot_s=section.boot_time.total_seconds(),
        usd_per_hour=section.usd_per_hour,
        boot=boot or {},
    )


def _machine(section: GcpSection) -> tuple[str | int, ...]:
    return (section.instance_type.machine_type, *section.instance_type.added)
