"""Sections of type gcp by the project and region that they buy from: each is one provider."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from master.config import ResolvedPool
from master.wiring.cloud_sections import places_of, unknown_place
from provisioner.providers.gcp.metadata import own_zone
from provisioner.providers.gcp.names import region_of
from provisioner.providers.gcp.site import GcpSite
from provisioner.sections.gcp import GcpMachines, GcpSection

ENDPOINT_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"
"""As gcloud has it: another address of the API. Without TLS it is sent no credentials."""
ZONE_VARIABLE = "CLOUDSDK_COMPUTE_ZONE"


def sites_of(
    pools: Sequence[ResolvedPool], default: Callable[[], str] | None = None
) -> Mapping[GcpSite, Sequence[GcpMachines]]:
    """Raises InvalidConfig where sections contradict each other.

    `default`: the zone of sections that give none; None: `default_zone`.
    """

    def placed(section: GcpSection) -> tuple[GcpSite, GcpSection]:
        region = section.own_region
        if region is None:
            zone = (default or default_zone)()
            region, section = region_of(zone), section.model_copy(update={"zone": zone})
        site = GcpSite(name="", project=section.project, region=region, endpoint_url=endpoint())
        return site, section

    return places_of(pools, GcpSection, placed)


def endpoint() -> str:
    """Of the API; empty: Google's own."""
    return os.environ.get(ENDPOINT_VARIABLE, "").rstrip("/").removesuffix("/compute/v1")


def default_zone() -> str:
    found = os.environ.get(ZONE_VARIABLE) or own_zone()
    if not found:
        ways = f"give zone, zones or region, or set {ZONE_VARIABLE}"
        raise unknown_place("gcp", "zone", "Compute Engine", ways)
    return found
