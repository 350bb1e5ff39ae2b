"""What the fake sells: zones, machine types, GPUs that can be attached, images, networks."""

from __future__ import annotations

from typing import Any, NamedTuple

ZONES = (
    *("us-central1-a", "us-central1-b", "us-central1-c"),
    *("us-east1-b", "us-east1-c", "europe-west4-a"),
)
NETWORKS = frozenset({"default", "training"})
SUBNETWORKS = frozenset({"default", "training-a"})
IMAGES = {
    "projects/determined-ai/global/images/det-environments-0736b6d": 50,
    "projects/deeplearning-platform-release/global/images/family/common-cu128-ubuntu-2204-nvidia-570": 50,
    "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts": 10,
    "projects/acme/global/images/windlass-1": 50,
}
"""Image -> size of its disk in GB."""
SERVICE_ACCOUNTS = frozenset({"default", "agents@acme.iam.gserviceaccount.com"})


class Type(NamedTuple):
    cpus: int
    memory_mib: int
    gpu: str = ""
    gpus: int = 0


TYPES = {
    "n1-standard-8": Type(8, 30_720),
    "n1-standard-32": Type(32, 122_880),
    "n2-standard-4": Type(4, 16_384),
    "e2-standard-4": Type(4, 16_384),
    "a2-highgpu-1g": Type(12, 87_040, "nvidia-tesla-a100", 1),
    "a2-highgpu-2g": Type(24, 174_080, "nvidia-tesla-a100", 2),
    "a2-highgpu-8g": Type(96, 696_320, "nvidia-tesla-a100", 8),
    "a3-highgpu-8g": Type(208, 1_916_928, "nvidia-h100-80gb", 8),
    "g2-standard-4": Type(4, 16_384, "nvidia-l4", 1),
    "g2-standard-96": Type(96, 393_216, "nvidia-l4", 8),
}
NOT_IN = {("a3-highgpu-8g", "us-central1-b"), ("a3-highgpu-8g", "us-east1-b")}
"""(type, zone) that are not sold."""
ACCELERATORS = {"nvidia-tesla-t4": 4, "nvidia-tesla-v100": 8}
"""GPUs that can be attached to N1 -> the most of one machine."""


def region_of(zone: str) -> str:
    return zone.rpartition("-")[0]


def zone_view(zone: str, url: str) -> dict[str, Any]:
    return {"name": zone, "status": "UP", "region": f"{url}/regions/{region_of(zone)}"}


def type_view(name: str, zone: str) -> dict[str, Any]:
    type_ = TYPES[name]
    view: dict[str, Any] = {
        "name": name,
        "guestCpus": type_.cpus,
        "memoryMb": type_.memory_mib,
        "zone": zone,
    }
    if type_.gpu:
        view["accelerators"] = [
            {"guestAcceleratorType": type_.gpu, "guestAcceleratorCount": type_.gpus}
        ]
    return view


def types_in(zone: str) -> list[dict[str, Any]]:
    return [type_view(name, zone) for name in TYPES if (name, zone) not in NOT_IN]


def accelerators_in(zone: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "zone": zone, "maximumCardsPerInstance": most}
        for name, most in ACCELERATORS.items()
    ]
