"""Options of `det deploy gcp up`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

from pydantic import AfterValidator, Field

from windlass.deploy.cloud.field_types import Period, nearest, one_of, pairs, shaped
from windlass.deploy.cloud.options import Cli, CommonOptions

REGIONS = (
    *("africa-south1", "asia-east1", "asia-east2", "asia-northeast1", "asia-northeast2"),
    *("asia-northeast3", "asia-south1", "asia-south2", "asia-southeast1", "asia-southeast2"),
    *("australia-southeast1", "australia-southeast2", "europe-central2", "europe-north1"),
    *("europe-southwest1", "europe-west1", "europe-west2", "europe-west3", "europe-west4"),
    *("europe-west6", "europe-west8", "europe-west9", "europe-west10", "europe-west12"),
    *("me-central1", "me-central2", "me-west1", "northamerica-northeast1"),
    *("northamerica-northeast2", "southamerica-east1", "southamerica-west1", "us-central1"),
    *("us-east1", "us-east4", "us-east5", "us-south1", "us-west1", "us-west2", "us-west3"),
    "us-west4",
)
GPU_COUNTS = {
    "nvidia-tesla-t4": (1, 2, 4),
    "nvidia-tesla-p100": (1, 2, 4),
    "nvidia-tesla-p4": (1, 2, 4),
    "nvidia-tesla-v100": (1, 2, 4, 8),
    "nvidia-l4": (1, 2, 4, 8),
    "nvidia-tesla-a100": (1, 2, 4, 8, 16),
    "nvidia-a100-80gb": (1, 2, 4, 8),
    "nvidia-h100-80gb": (1, 2, 4, 8),
    "nvidia-h100-mega-80gb": (8,),
    "nvidia-h200-141gb": (8,),
    "nvidia-b200": (8,),
}
DISK_TYPES = ("pd-standard", "pd-balanced", "pd-ssd", "hyperdisk-balanced")
_FAMILIES = (
    *("e2", "n1", "n2", "n2d", "n4", "c2", "c2d", "c3", "c3d", "c4", "t2d", "m1", "m2", "m3"),
    *("a2", "a3", "a4", "g2"),
)
_OUR_LABELS = (
    *("determined-master-host", "determined-master-port", "determined-resource-pool"),
    "managed-by",
)


def _cluster_id(value: str) -> str:
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", value):
        raise ValueError(
            f'"{value}" must begin with a small letter and have only small letters, digits and -'
        )
    if len(value) > 35:
        raise ValueError(f'"{value}" has {len(value)} characters: at most 35')
    return value


def _machine_type(value: str) -> str:
    family, _, rest = value.partition("-")
    if family == "custom" or (
        family in _FAMILIES and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rest)
    ):
        return value
    if not rest:
        raise ValueError(f'"{value}" is no machine type: write it like n1-standard-4')
    near = nearest(family, _FAMILIES)
    meant = f'did you mean "{near.split(chr(34))[1]}-{rest}"?' if '"' in near else near
    raise ValueError(f'"{value}" is no machine type: {meant}')


def _label(key: str, value: str) -> str:
    if key in _OUR_LABELS or key.startswith(("windlass-", "det-")):
        return "this key is reserved"
    if not re.fullmatch(r"[a-z][-_a-z0-9]{0,62}", key) or not re.fullmatch(
        r"[-_a-z0-9]{0,63}", value
    ):
        return "labels have small letters, digits, _ and -, at most 63"
    return ""


MachineType: TypeAlias = Annotated[str, AfterValidator(_machine_type)]


class GcpOptions(CommonOptions):
    """What a cluster on Google Cloud is to be."""

    placeholders: ClassVar[dict[str, object]] = {"cluster_id": "x", "project_id": "project"}

    cluster_id: Annotated[str, AfterValidator(_cluster_id)]
    """Name of the cluster, in everything that it makes."""
    project_id: Annotated[
        str,
        shaped(r"([a-z0-9.]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]", "the id of a project"),
        Field(min_length=1),
    ]
    """Project that it is made in."""
    keypath: Path | None = None
    """Key file of a service account. Default: application default credentials."""
    network: Annotated[str, shaped(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "a name for a network")] = (
        "det-default"
    )
    """Make this network; it must not exist."""
    filestore_address: Annotated[
        str,
        shaped(r"\d+\.\d+\.\d+\.\d+:/\S+", "the address of a Filestore, such as 10.0.0.2:/share"),
    ] = ""
    """Mount this Filestore. Default: a new one."""
    no_filestore: Annotated[bool, Cli(plain=True)] = False
    """Make no Filestore."""
    region: Annotated[str, one_of("region of Google Cloud", REGIONS)] = "us-west1"
    """Region that it is made in."""
    zone: str = ""
    """Zone of its machines. Default: REGION-b."""
    disk_size: Annotated[int, Field(ge=100, le=65536)] = 200
    """Disk of each machine of pools, in GB."""
    disk_type: Annotated[str, one_of("type of disks", DISK_TYPES)] = "pd-standard"
    """Its type."""
    environment_image: Annotated[str, Cli(hidden=True)] = ""
    """Image of the machines of pools."""
    tf_state_gcs_bucket_name: Annotated[
        str, shaped(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", "the name of a bucket")
    ] = ""
    """Keep Terraform's state in this bucket. It is made unless it exists."""
    preemptible: Annotated[bool, Cli(text=True)] = False
    """true: buy spot machines for compute-pool."""
    operation_timeout_period: Period = timedelta(minutes=5)
    """Give an operation of Compute Engine up after so long."""
    master_instance_type: MachineType = "n1-standard-2"
    """Machine of the master."""
    aux_agent_instance_type: Annotated[MachineType, Cli(names=("--cpu-agent-instance-type",))] = (
        "n1-standard-4"
    )
    """Machines of aux-pool, for work without GPUs."""
    compute_agent_instance_type: Annotated[
        MachineType, Cli(names=("--gpu-agent-instance-type",))
    ] = "n1-standard-32"
    """Machines of compute-pool."""
    gpu_type: Annotated[str, one_of("type of GPU", GPU_COUNTS)] = "nvidia-tesla-t4"
    """GPUs of the machines of compute-pool."""
    gpu_num: Annotated[int, Field(ge=0, le=16)] = 4
    """How many in each."""
    min_cpu_platform_master: str = "Intel Skylake"
    """Oldest CPU of the master's machine."""
    min_cpu_platform_agent: str = "Intel Broadwell"
    """Oldest CPU of the machines of pools."""
    add_label: Annotated[tuple[str, ...], pairs("label", _label), Cli(metavar="KEY=VALUE")] = ()
    """Label everything. May be repeated."""
    dry_run: Annotated[bool, Cli(plain=True)] = False
    """Show what would be made, and make nothing."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        yield from super().conflicts()
        counts = GPU_COUNTS[self.gpu_type]
        if self.gpu_num and self.gpu_num not in counts:
            offered = ", ".join(map(str, counts))
            yield "gpu_num", f"{self.gpu_num}: machines have 0, {offered} of {self.gpu_type}"
        if self.zone and self.zone[:-2] != self.region:
            yield (
                "zone",
                f'"{self.zone}" is no zone of --region {self.region}: did you mean "{self.region}-b"?',
            )
        if self.filestore_address and self.no_filestore:
            yield "no_filestore", "does not go with --filestore-address: leave one of them out"
        if self.keypath is not None and not self.keypath.is_file():
            yield "keypath", f"{self.keypath}: no such file"

    @property
    def effective_zone(self) -> str:
        return self.zone or f"{self.region}-b"

    @property
    def only_shows(self) -> bool:
        return self.dry_run
