"""`provider` sections of type gcp: machines of Google Compute Engine."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from master.core.expconf.models.durations import PositiveDuration
from master.core.expconf.models.schema import FreeMap, Integer, Items, NonNegative, Section
from master.core.expconf.parsing.errors import nearest
from provisioner.money.price_book import BUNDLED, known_types, read_table
from provisioner.providers.gcp.names import (
    ATTACHED,
    BUILT_IN,
    MAX_PREFIX,
    REGION_NAME,
    REGIONS,
    ZONE_NAME,
    is_machine_type,
    kind_name,
    region_of,
)
from provisioner.sections.cloud import CloudSection, PoolMachines, check_region, shaped
from provisioner.types import Market
from windlass.base.no_effect import NoEffect

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_IMAGE = re.compile(r"(https://[^/]+/compute/[^/]+/)?projects/[^/]+/global/images/(family/)?[^/]+")
MAX_LABELS = 40
"""Of 64; the rest is ours."""
OURS = ("machineType", "startup-script")
QUEUED_MAX_RUN = timedelta(days=7)
"""The longest that Google grants to what was queued for."""
ANYTHING = "https://www.googleapis.com/auth/cloud-platform"


def _region(value: str | None) -> str | None:
    return check_region(
        value, of="Google Cloud", known=REGIONS, pattern=REGION_NAME, example="us-central1"
    )


def _zone(value: str | None) -> str | None:
    if value is None or (ZONE_NAME.fullmatch(value) and region_of(value) in REGIONS):
        return value
    region, letter = region_of(value), value.rpartition("-")[2]
    if value in REGIONS:
        near: str | None = f"{value}-a"
    else:
        known = nearest(region, REGIONS) if region else None
        near = f"{known}-{letter}" if known and len(letter) == 1 else None
    if near or not ZONE_NAME.fullmatch(value):
        meant = f': did you mean "{near}"?' if near else ', such as "us-central1-a"'
        raise ValueError(f'"{value}" is no zone of Google Cloud{meant}')
    return value


def _labels(value: dict[str, str]) -> dict[str, str]:
    for key, text in value.items():
        if key.startswith("windlass_"):
            raise ValueError(f'"{key}" is reserved: use another key')
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(text):
            raise ValueError(
                f'"{key}: {text}" is no label: lower case, digits, "-" and "_", at most 63 characters'
            )
    if len(value) > MAX_LABELS:
        raise ValueError(f"has {len(value)} labels: at most {MAX_LABELS}")
    return value


Zone = Annotated[str, AfterValidator(_zone)]
Name = Annotated[str, shaped('a name, such as "gpu-nodes"', _NAME)]


class GcpNetwork(Section):
    """Where machines are in the network."""

    network: str = ""
    """Its name, or `projects/PROJECT/global/networks/NAME`. Empty: that of the subnetwork, else `default`."""
    subnetwork: str = ""
    """Its name, or `projects/PROJECT/regions/REGION/subnetworks/NAME`. Empty: that of the region."""
    external_ip: bool = False
    """Whether machines get public addresses."""


class GcpServiceAccount(Section):
    """As whom machines, and tasks on them, call Google."""

    email: Annotated[
        str,
        shaped(
            'the address of a service account, such as "agents@PROJECT.iam.gserviceaccount.com"',
            re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|default"),
        ),
    ] = ""
    """Empty: none."""
    scopes: Items[str] = (ANYTHING,)
    """What they may ask for; what they get is said by the roles of the account."""


class GcpMachine(Section):
    """What is bought. A pool may have several sections, each with its own."""

    machine_type: str = "n1-standard-32"
    """Such as "a2-highgpu-8g"."""
    gpu_type: str | None = None
    """Added to machines of type N1. None: nvidia-tesla-t4. Others bring their own."""
    gpu_num: NonNegative | None = None
    """How many. None: 4 for machines of type N1, else those that the type brings."""
    preemptible: bool = False
    """Whether spot machines are bought, and no others. See `markets`."""

    @field_validator("machine_type")
    @classmethod
    def _known_machine_type(cls, name: str) -> str:
        if name in known_types("gcp") or is_machine_type(name):
            return name
        near = nearest(name, known_types("gcp"))
        meant = f': did you mean "{near}"?' if near else ', such as "n1-standard-8"'
        raise ValueError(f'"{name}" is no machine type of Google Cloud{meant}')

    @field_validator("gpu_type")
    @classmethod
    def _known_gpu(cls, gpu: str | None, info: ValidationInfo) -> str | None:
        machine = info.data.get("machine_type")
        if not gpu or machine is None or (_takes_gpus(machine) and gpu in ATTACHED):
            return gpu
        if machine.startswith(BUILT_IN):
            return gpu
        if not _takes_gpus(machine):
            raise ValueError(f"{machine} takes no GPUs: use a type that has them, or an N1")
        near = nearest(gpu, tuple(ATTACHED))
        meant = f'did you mean "{near}"?' if near else f"use one of {', '.join(ATTACHED)}"
        raise ValueError(f'"{gpu}" cannot be added to {machine}: {meant}')

    @field_validator("gpu_num")
    @classmethod
    def _possible_count(cls, count: int | None, info: ValidationInfo) -> int | None:
        machine, gpu = info.data.get("machine_type"), info.data.get("gpu_type")
        if not count or machine is None or "gpu_type" not in info.data or gpu == "":
            return count
        known = read_table(BUNDLED).clouds["gcp"].types.get(machine)
        if machine.startswith(BUILT_IN):
            if known is not None and known.gpus != count:
                raise ValueError(f"{machine} has {known.gpus} GPUs: remove gpu_num")
            return count
        counts = ATTACHED.get(gpu or DEFAULT_GPU, ())
        if not _takes_gpus(machine):
            raise ValueError(f"{machine} takes no GPUs: use a type that has them, or an N1")
        if count not in counts:
            allowed = ", ".join(map(str, counts))
            raise ValueError(f"{count} of {gpu or DEFAULT_GPU} cannot be added: use {allowed} or 0")
        return count

    @property
    def added(self) -> tuple[str, int]:
        """The GPUs that are added to the machine."""
        if not _takes_gpus(self.machine_type) or self.gpu_type == "" or self.gpu_num == 0:
            return "", 0
        count = DEFAULT_GPUS if self.gpu_num is None else self.gpu_num
        return self.gpu_type or DEFAULT_GPU, count


DEFAULT_GPU = "nvidia-tesla-t4"
DEFAULT_GPUS = 4


def _takes_gpus(machine_type: str) -> bool:
    return machine_type.startswith(("n1-", "custom-"))


class GcpSection(CloudSection):
    """Machines of Google Compute Engine.

    Credentials are found in the usual places: GOOGLE_APPLICATION_CREDENTIALS, the login of gcloud, the service account
    of the master's machine.
    """

    type: Literal["gcp"]
    """Others are refused."""
    project: Annotated[str, shaped('the id of a project, such as "acme-ml-1"', _PROJECT)] = ""
    """Empty: that of the credentials."""
    region: Annotated[str | None, AfterValidator(_region)] = None
    """Our own key: machines are bought in all of its zones. None: that of `zone` or `zones`."""
    zone: Zone | None = None
    """Machines are bought there. None, and no `zones` or `region`: where the master's machine is."""
    zones: Items[Zone] = ()
    """Our own key: several zones of one region."""
    instance_type: GcpMachine = GcpMachine()
    """What is bought. A pool may have several sections, each with its own."""
    cpu_slots_allowed: bool = False
    """Whether a machine without GPUs has one slot."""
    markets: Items[Literal["spot", "on_demand", "queued"]] = ()
    """Our own key: any of spot, on_demand and queued (flex-start). Empty: as `instance_type.preemptible` says."""
    reservations: Items[Name] = ()
    """Our own key: names of reservations, which are used first. With `markets` empty and `preemptible` false nothing
    else is bought."""
    placement_policy: Name = ""
    """Our own key: the name of a compact placement policy, made if it does not exist. Empty: anywhere in a zone."""
    max_run_duration: PositiveDuration | None = None
    """Our own key: Google ends a machine after so long, whatever becomes of the master. None: 7d for machines that
    were queued for, else never."""
    queue_for: PositiveDuration = timedelta(hours=2)
    """Our own key: how long a queued launch is waited for."""
    base_config: FreeMap = Field(default_factory=dict)
    """Properties of an instance as the API of Compute Engine names them; what this section says comes over them."""
    boot_disk_size: Annotated[Integer, Field(ge=100)] = 200
    """Of the disk, in GB; deleted with its machine."""
    boot_disk_source_image: Annotated[
        str,
        shaped(
            'an image, such as "projects/PROJECT/global/images/NAME" or ".../images/family/NAME"',
            _IMAGE,
        ),
    ] = ""
    """What machines boot. Empty: an Ubuntu, with NVIDIA's driver for machines with GPUs."""
    boot_disk_type: str = "pd-standard"
    """Such as "pd-balanced"; of `projects/.../diskTypes/NAME` only the name is used."""
    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)
    """Labels of machines."""
    label_key: Annotated[str, shaped("a key of labels", _LABEL_KEY)] = "managed-by"
    """A label that says whose machines they are, for people; the master goes by labels of its own."""
    label_value: Annotated[str, shaped("a value of labels", _LABEL_VALUE)] = "windlass"
    """Its value."""
    name_prefix: Annotated[str, Field(pattern=rf"^([a-z][-a-z0-9]{{0,{MAX_PREFIX - 1}}})?$")] = ""
    """What names of machines begin with. Empty: `windlass-`."""
    network_interface: GcpNetwork = GcpNetwork()
    """Where machines are in the network."""
    network_tags: Items[Name] = ()
    """Tags that rules of the firewall go by."""
    service_account: GcpServiceAccount = GcpServiceAccount()
    """As whom machines, and tasks on them, call Google."""
    operation_timeout_period: PositiveDuration = timedelta(minutes=5)
    """How long Google may take to make a machine, until the launch is given up."""
    use_cloud_logging: Annotated[
        bool, NoEffect("logs of agents and tasks are kept by the master")
    ] = False
    """Logs of agents to Cloud Logging."""

    @field_validator("zones")
    @classmethod
    def _zones_of_one_region(cls, zones: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        zone, region = info.data.get("zone"), info.data.get("region")
        regions = sorted({region_of(each) for each in (*zones, *([zone] if zone else []))})
        if len(regions) > 1:
            raise ValueError(
                f"zones are in {' and '.join(regions)}: give each region a section of its own"
            )
        if region and regions and regions != [region]:
            raise ValueError(f"zones are in {regions[0]}, but region is {region}: remove one")
        return zones

    @field_validator("markets")
    @classmethod
    def _markets_once(cls, markets: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if len(set(markets)) < len(markets):
            raise ValueError("a market is named twice: remove one")
        machine = info.data.get("instance_type")
        if (
            markets
            and isinstance(machine, GcpMachine)
            and machine.preemptible
            and "spot" not in markets
        ):
            raise ValueError("does not contain spot, but instance_type.preemptible is true")
        return markets

    @field_validator("base_config")
    @classmethod
    def _leaves_room_for_ours(cls, base: dict[str, Any]) -> dict[str, Any]:
        if "machineType" in base:
            raise ValueError("machineType: use instance_type.machine_type")
        if "guestAccelerators" in base:
            raise ValueError("guestAccelerators: use instance_type.gpu_type and gpu_num")
        metadata = base.get("metadata", {})
        items = metadata.get("items", []) if isinstance(metadata, dict) else []
        if any(isinstance(each, dict) and each.get("key") == "startup-script" for each in items):
            raise ValueError("metadata: startup-script is ours: use startup_script")
        for key, kind in _SHAPES.items():
            if key in base and not isinstance(base[key], kind):
                raise ValueError(f"{key}: expected {'a list' if kind is list else 'a map'}")
        return base

    @property
    def bought_markets(self) -> tuple[Market, ...]:
        """What is bought beside reservations."""
        if self.markets:
            return tuple(Market(name) for name in self.markets)
        if self.instance_type.preemptible:
            return (Market.SPOT,)
        return () if self.reservations else (Market.ON_DEMAND,)

    @property
    def all_zones(self) -> tuple[str, ...]:
        """Empty: all of the region, or where the master's machine is."""
        return tuple(dict.fromkeys((*([self.zone] if self.zone else []), *self.zones)))

    @property
    def own_region(self) -> str | None:
        """None: where the master's machine is."""
        zones = self.all_zones
        return self.region or (region_of(zones[0]) if zones else None)

    @property
    def kind(self) -> str:
        return kind_name(self.instance_type.machine_type, *self.instance_type.added)

    @property
    def all_labels(self) -> dict[str, str]:
        return {**self.labels, self.label_key: self.label_value}

    def lifetime_s(self, market: Market) -> float | None:
        """When Google ends a machine; what was queued for always has such a time."""
        longest = self.max_run_duration
        if longest is None and market is Market.QUEUED:
            longest = QUEUED_MAX_RUN
        return None if longest is None else longest.total_seconds()


GcpMachines: TypeAlias = PoolMachines[GcpSection]


_SHAPES = {
    **dict.fromkeys(("disks", "networkInterfaces", "serviceAccounts", "resourcePolicies"), list),
    **dict.fromkeys(("labels", "metadata", "scheduling", "tags"), dict),
}
