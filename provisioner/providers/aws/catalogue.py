"""What one account sells in one region, asked of EC2: facts of types, zones, subnets, images, reservations, prices."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel

from provisioner.providers.aws.account import UBUNTU_CPU, UBUNTU_GPU
from provisioner.providers.aws.client import AwsClient, AwsError
from provisioner.providers.aws.names import quota_code, quota_family
from provisioner.sections.aws import AwsSection
from provisioner.types import Market
from windlass.base.errors import ProviderError
from windlass.base.formats.json_types import JsonMapping

log = logging.getLogger(__name__)

QUOTAS_WITHIN_S = 8.0
"""A network that reaches EC2 alone leaves these calls without an answer: the provider opens all the same."""
_MAX_NAMES = 100
"""So many values one filter or call takes."""
_TOTAL = re.compile(r"(?:(\d+)x )?([\d.]+) Gigabit")
_CANONICAL = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFacts:
    name: str
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_mib: int | None = None
    cpus: int = 0
    memory_mib: int = 0
    network_gbps: float | None = None
    architecture: str = "x86_64"
    network_cards: int = 1
    efa_interfaces: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    id: str
    zone: str
    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineImage:
    id: str
    root_device: str
    architecture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservation:
    id: str
    instance_type: str
    zone: str
    is_block: bool
    """A capacity block: its machines are ended when it ends."""
    starts_at: float | None
    ends_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Of one instant."""

    zones: frozenset[str] = frozenset()
    types: Mapping[str, TypeFacts] = field(default_factory=dict)
    sold: frozenset[tuple[str, str]] = frozenset()
    """(type, zone)"""
    subnets: Mapping[str, Subnet] = field(default_factory=dict)
    default_subnets: Mapping[str, Subnet] = field(default_factory=dict)
    """By zone."""
    images: Mapping[str, MachineImage] = field(default_factory=dict)
    """By id."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Path of an SSM parameter -> id of an image."""
    reservations: Mapping[str, CapacityReservation] = field(default_factory=dict)
    spot_usd: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(type, zone) -> USD per hour."""
    quotas: Mapping[str, float] = field(default_factory=dict)
    """Code -> vCPUs that the account may run at once; missing: not known."""


class _Reply(BaseModel):
    """What of a reply is read. Others of its members are nobody's affair."""


class _Gpu(_Reply):
    Name: str = ""
    Count: int = 0
    MemoryInfo: Mapping[str, int] = {}


class _Gpus(_Reply):
    Gpus: Sequence[_Gpu] = ()


class _Card(_Reply):
    BaselineBandwidthInGbps: float | None = None


class _Efa(_Reply):
    MaximumEfaInterfaces: int = 1


class _Network(_Reply):
    NetworkPerformance: str = ""
    NetworkCards: Sequence[_Card] = ()
    EfaSupported: bool = False
    EfaInfo: _Efa = _Efa()

    def gbps(self) -> float | None:
        """Of all cards together: of some types each card says what all have. "Up to" is no rate that lasts."""
        if found := _TOTAL.fullmatch(self.NetworkPerformance):
            return int(found[1] or 1) * float(found[2])
        speeds = [card.BaselineBandwidthInGbps or 0.0 for card in self.NetworkCards]
        return sum(speeds) or None


class _Processor(_Reply):
    SupportedArchitectures: Sequence[str] = ("x86_64",)


class _Type(_Reply):
    InstanceType: str
    GpuInfo: _Gpus = _Gpus()
    VCpuInfo: Mapping[str, object] = {}
    MemoryInfo: Mapping[str, int] = {}
    NetworkInfo: _Network = _Network()
    ProcessorInfo: _Processor = _Processor()

    def facts(self) -> TypeFacts:
        first = next(iter(self.GpuInfo.Gpus), None)
        cards = self.NetworkInfo.NetworkCards
        known = self.ProcessorInfo.SupportedArchitectures
        efa = self.NetworkInfo.EfaInfo.MaximumEfaInterfaces if self.NetworkInfo.EfaSupported else 0
        return TypeFacts(
            name=self.InstanceType,
            gpus=sum(gpu.Count for gpu in self.GpuInfo.Gpus),
            gpu_model=first.Name if first else "",
            gpu_memory_mib=first.MemoryInfo.get("SizeInMiB") if first else None,
            cpus=int(str(self.VCpuInfo.get("DefaultVCpus", 0))),
            memory_mib=self.MemoryInfo.get("SizeInMiB", 0),
            network_gbps=self.NetworkInfo.gbps(),
            architecture="arm64" if "x86_64" not in known and "arm64" in known else "x86_64",
            network_cards=max(1, len(cards)),
            efa_interfaces=efa,
        )


class _Subnet(_Reply):
    SubnetId: str
    AvailabilityZone: str
    VpcId: str = ""

    def subnet(self) -> Subnet:
        return Subnet(id=self.SubnetId, zone=self.AvailabilityZone, network=self.VpcId)


class _Image(_Reply):
    ImageId: str
    RootDeviceName: str = "/dev/sda1"
    Architecture: str = "x86_64"

    def image(self) -> MachineImage:
        return MachineImage(
            id=self.ImageId, root_device=self.RootDeviceName, architecture=self.Architecture
        )


class _Reservation(_Reply):
    CapacityReservationId: str
    InstanceType: str
    AvailabilityZone: str
    State: str = "active"
    ReservationType: str = "default"
    StartDate: datetime | None = None
    EndDate: datetime | None = None

    def reservation(self) -> CapacityReservation:
        return CapacityReservation(
            id=self.CapacityReservationId,
            instance_type=self.InstanceType,
            zone=self.AvailabilityZone,
            is_block=self.ReservationType == "capacity-block",
            starts_at=self.StartDate.timestamp() if self.StartDate else None,
            ends_at=self.EndDate.timestamp() if self.EndDate else None,
        )


class _SpotPrice(_Reply):
    InstanceType: str
    AvailabilityZone: str
    SpotPrice: float


def image_path(section: AwsSection, facts: TypeFacts) -> str:
    """The SSM parameter that holds the image of such machines."""
    default = UBUNTU_GPU if facts.gpus else UBUNTU_CPU
    path = section.image_parameter or default
    arch = facts.architecture
    return path.replace("{arch}", arch).replace("{canonical_arch}", _CANONICAL.get(arch, arch))


async def learn(client: AwsClient, wanted: Sequence[AwsSection], now: datetime) -> Catalogue:
    """Ask for all that these pools may buy. Raises as `AwsClient.call`; things that do not exist are left out."""
    names = sorted({section.instance_type for section in wanted})
    types = await _types(client, names)
    zones = await client.call("ec2", "describe_availability_zones")
    parameters = await _parameters(client, wanted, types)
    images = {section.image_id for section in wanted} | set(parameters.values())
    return Catalogue(
        zones=frozenset(zone["ZoneName"] for zone in zones.get("AvailabilityZones", ())),
        types=types,
        sold=await _sold(client, names),
        subnets=await _subnets(client, {id_ for x in wanted for id_ in x.all_subnets}),
        default_subnets=await _default_subnets(client),
        parameters=parameters,
        images=await _images(client, images - {""}),
        reservations=await _reservations(client, {id_ for x in wanted for id_ in x.reservations}),
        spot_usd=await _spot_usd(client, names, now),
        quotas=await _quotas(client, wanted),
    )


async def _all(
    client: AwsClient, operation: str, key: str, **parameters: object
) -> Sequence[JsonMapping]:
    return [
        item
        async for page in client.pages("ec2", operation, **parameters)
        for item in page.get(key, ())
    ]


def _filter(name: str, values: Iterable[str]) -> list[JsonMapping]:
    """A filter leaves out what does not exist, where a list of ids would fail as a whole."""
    return [{"Name": name, "Values": sorted(values)}]


async def _types(client: AwsClient, names: Sequence[str]) -> dict[str, TypeFacts]:
    found: dict[str, TypeFacts] = {}
    for start in range(0, len(names), _MAX_NAMES):
        wanted = _filter("instance-type", names[start : start + _MAX_NAMES])
        for item in await _all(client, "describe_instance_types", "InstanceTypes", Filters=wanted):
            facts = _Type.model_validate(item).facts()
            found[facts.name] = facts
    return found


async def _sold(client: AwsClient, names: Sequence[str]) -> frozenset[tuple[str, str]]:
    found = await _all(
        client,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=_filter("instance-type", names),
    )
    return frozenset((item["InstanceType"], item["Location"]) for item in found)


async def _subnets(client: AwsClient, ids: set[str]) -> dict[str, Subnet]:
    if not ids:
        return {}
    found = await _all(client, "describe_subnets", "Subnets", Filters=_filter("subnet-id", ids))
    return {x.id: x for x in (_Subnet.model_validate(item).subnet() for item in found)}


async def _default_subnets(client: AwsClient) -> dict[str, Subnet]:
    wanted = _filter("default-for-az", ["true"])
    found = await _all(client, "describe_subnets", "Subnets", Filters=wanted)
    return {x.zone: x for x in (_Subnet.model_validate(item).subnet() for item in found)}


async def _parameters(
    client: AwsClient, wanted: Sequence[AwsSection], types: Mapping[str, TypeFacts]
) -> dict[str, str]:
    paths = sorted(
        {
            image_path(section, types[section.instance_type])
            for section in wanted
            if not section.image_id and section.instance_type in types
        }
    )
    found: dict[str, str] = {}
    for start in range(0, len(paths), 10):
        reply = await client.call("ssm", "get_parameters", Names=paths[start : start + 10])
        found |= {item["Name"]: item["Value"] for item in reply.get("Parameters", ())}
    return found


async def _images(client: AwsClient, ids: set[str]) -> dict[str, MachineImage]:
    if not ids:
        return {}
    wanted = _filter("image-id", ids)
    reply = await client.call("ec2", "describe_images", Filters=wanted, IncludeDeprecated=True)
    found = (_Image.model_validate(item).image() for item in reply.get("Images", ()))
    return {image.id: image for image in found}


async def _reservations(client: AwsClient, ids: set[str]) -> dict[str, CapacityReservation]:
    if not ids:
        return {}
    wanted = _filter("capacity-reservation-id", ids)
    found = await _all(
        client, "describe_capacity_reservations", "CapacityReservations", Filters=wanted
    )
    read = (_Reservation.model_validate(item) for item in found)
    return {
        item.CapacityReservationId: item.reservation()
        for item in read
        if item.State in ("active", "scheduled", "pending", "payment-pending")
    }


async def _spot_usd(
    client: AwsClient, names: Sequence[str], now: datetime
) -> dict[tuple[str, str], float]:
    """The newest price of each: those of one instant are one per type and zone."""
    found = await _all(
        client,
        "describe_spot_price_history",
        "SpotPriceHistory",
        InstanceTypes=list(names),
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
        StartTime=now,
        EndTime=now,
    )
    read = (_SpotPrice.model_validate(item) for item in found)
    return {(item.InstanceType, item.AvailabilityZone): item.SpotPrice for item in read}


async def _quotas(client: AwsClient, wanted: Sequence[AwsSection]) -> dict[str, float]:
    """Launches need none of them: one that cannot be read is unknown."""
    codes = {
        quota_code(quota_family(section.instance_type), spot=market is Market.SPOT)
        for section in wanted
        for market in section.bought_markets
    }
    found: dict[str, float] = {}
    try:
        async with asyncio.timeout(QUOTAS_WITHIN_S):
            for code in sorted(codes):
                try:
                    reply = await client.call(
                        "service-quotas", "get_service_quota", ServiceCode="ec2", QuotaCode=code
                    )
                except (AwsError, ProviderError, OSError) as error:
                    log.info("quota %s is not known: %s", code, error)
                else:
                    found[code] = float(reply["Quota"]["Value"])
    except TimeoutError:
        log.info("quotas %s are not known: no answer", ", ".join(sorted(codes - set(found))))
    return found
