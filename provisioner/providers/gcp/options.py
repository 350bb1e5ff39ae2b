"""What a pool may buy of Compute Engine, and how its machines are made, as the operator says."""

from __future__ import annotations

from dataclasses import dataclass, field

from provisioner.types import Market
from windlass.base.json_types import JsonMapping

DEFAULT_BOOT_S = 120.0
IMAGE_GPU = "projects/deeplearning-platform-release/global/images/family/common-cu128-ubuntu-2204-nvidia-570"
IMAGE_CPU = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts"
QUEUED_MAX_RUN_S = 7 * 86_400.0
"""The longest that Google grants to what was queued for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One project in one region: one `Provider`."""

    name: str
    project: str
    """Empty: that of the credentials."""
    region: str
    endpoint_url: str = ""
    """Empty: Google's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """One kind of machine that one pool buys at one site."""

    pool: str
    machine_type: str
    gpu: str = ""
    """Added to the machine; empty: what the type brings."""
    gpus: int = 0
    cpu_slot: bool = False
    """A machine without GPUs has one slot."""
    markets: tuple[Market, ...] = (Market.ON_DEMAND,)
    zones: tuple[str, ...] = ()
    """Empty: all of the region that sell it."""
    reservations: tuple[str, ...] = ()
    """Names of reservations of the project."""
    placement: str = ""
    """A compact placement policy, made if it does not exist. Empty: anywhere in a zone."""
    image: str = ""
    """Empty: an Ubuntu, with NVIDIA's driver for machines with GPUs."""
    disk_gib: int = 200
    disk_type: str = "pd-standard"
    network: str = ""
    subnetwork: str = ""
    external_address: bool = False
    network_tags: tuple[str, ...] = ()
    service_account: str = ""
    scopes: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    name_prefix: str = "windlass-"
    base: JsonMapping = field(default_factory=dict)
    """Instance properties, as the API names them, over which everything else is laid."""
    max_run_s: float | None = None
    """Google ends a machine after so long, whatever becomes of the master."""
    operation_timeout_s: float = 300.0
    queue_deadline_s: float = 7200.0
    """How long a queued launch is waited for."""
    may_stop: bool = False
    """Its pool stops on-demand machines instead of ending them."""
    boot_s: float = DEFAULT_BOOT_S
    usd_per_hour: float | None = None
    """None: as the price book says."""
    boot: JsonMapping = field(default_factory=dict)
    """What user data is made of. Plain JSON, no secrets: it is kept with each launch."""

    def lifetime_s(self, market: Market) -> float | None:
        """When Google ends a machine; what was queued for always has such a time."""
        if self.max_run_s is None and market is Market.QUEUED:
            return QUEUED_MAX_RUN_S
        return self.max_run_s
