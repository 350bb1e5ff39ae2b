"""What a pool may buy of EC2, and how its machines are made, as the operator says."""

from __future__ import annotations

from dataclasses import dataclass, field

from provisioner.types import Market
from windlass.base.json_types import JsonMapping

DEFAULT_BOOT_S = 180.0
DEFAULT_ROOT_GIB = 200
UBUNTU_GPU = (
    "/aws/service/deeplearning/ami/{arch}/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
UBUNTU_CPU = (
    "/aws/service/canonical/ubuntu/server/22.04/stable/current/{canonical_arch}/hvm/ebs-gp2/ami-id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whose machines, and where: one `Provider`."""

    name: str
    region: str
    role: str = ""
    """ARN of the role that is assumed; empty: the credentials that were found."""
    external_id: str = ""
    endpoint_url: str = ""
    """Of every service; empty: AWS's own, or as the usual variables say."""
    queue_url: str = ""
    """An SQS queue that receives EC2's events; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTemplate:
    name: str
    """Its id or its name."""
    version: str = "$Default"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """One kind of machine that one pool buys from one account."""

    pool: str
    instance_type: str
    slots: int | None = None
    """None: its GPUs."""
    cpu_slot: bool = False
    """A machine without GPUs has one slot."""
    markets: tuple[Market, ...] = (Market.ON_DEMAND,)
    spot_max_price: str = ""
    """USD per hour. Empty: the on-demand price."""
    zones: tuple[str, ...] = ()
    """Empty: all that have a subnet."""
    subnets: tuple[str, ...] = ()
    """One in each zone. Empty: the default subnets."""
    security_group: str = ""
    """Empty: the default group of the network."""
    public_address: bool = True
    image: str = ""
    image_parameter: str = ""
    """Path of an SSM parameter that holds the id of the image. Empty: an Ubuntu by architecture and GPU."""
    root_gib: int = DEFAULT_ROOT_GIB
    instance_profile: str = ""
    """ARN; empty: none."""
    open_metadata: bool = False
    """Tasks may ask the metadata service, those in containers too."""
    ssh_key: str = ""
    machine_name: str = "determined-ai-agent"
    tags: tuple[tuple[str, str], ...] = ()
    reservations: tuple[str, ...] = ()
    """Ids of capacity reservations and capacity blocks."""
    placement_group: str = ""
    efa: bool = False
    launch_template: LaunchTemplate | None = None
    may_stop: bool = False
    """Its pool stops on-demand machines instead of ending them."""
    boot_s: float = DEFAULT_BOOT_S
    usd_per_hour: float | None = None
    """None: as the price book says."""
    boot: JsonMapping = field(default_factory=dict)
    """What user data is made of. Plain JSON, no secrets: it is kept with each launch."""
