"""Names that Google gives: regions, zones, machine types, GPUs and the quotas that they count against. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

REGIONS = (
    *("us-central1", "us-east1", "us-east4", "us-east5", "us-south1", "us-west1", "us-west2"),
    *("us-west3", "us-west4", "us-west8", "northamerica-northeast1", "northamerica-northeast2"),
    *("northamerica-south1", "southamerica-east1", "southamerica-west1"),
    *("europe-central2", "europe-north1", "europe-north2", "europe-southwest1", "europe-west1"),
    *("europe-west2", "europe-west3", "europe-west4", "europe-west6", "europe-west8"),
    *("europe-west9", "europe-west10", "europe-west12", "africa-south1", "me-central1"),
    *("me-central2", "me-west1", "asia-east1", "asia-east2", "asia-northeast1", "asia-northeast2"),
    *("asia-northeast3", "asia-south1", "asia-south2", "asia-southeast1", "asia-southeast2"),
    *("asia-southeast3", "australia-southeast1", "australia-southeast2"),
)
"""Those of 2026. A newer one is not refused, only one that looks like a misspelt one of these."""
TOKEN_CHARS = 20
"""Of the token of a launch, in names of machines: 80 bits."""
MAX_PREFIX = 63 - TOKEN_CHARS - len("-9999")
REGION_NAME = re.compile(r"[a-z]+(-[a-z]+)+\d+")
ZONE_NAME = re.compile(r"[a-z]+(-[a-z]+)+\d+-[a-z]+\d?[a-z]?")
_SERIES = r"a[2-4]x?|c2d?|c3d?|c4[ad]?|e2|f1|g[1-4]|h[34]|m[1-4]|n1|n2d?|n4[ad]?|t2[ad]|x4|z3"
_KINDS = (
    r"standard|highmem|highcpu|highgpu|megagpu|ultragpu|edgegpu|maxgpu|ultramem|megamem|hypermem"
)
_TYPE_NAME = re.compile(
    rf"({_SERIES})-({_KINDS})-\d+[gt]?(-(lssd|metal|nolssd))?"
    rf"|({_SERIES})-(micro|small|medium)|(({_SERIES})-)?custom-\d+-\d+(-ext)?"
)
"""Of the series of 2026."""
ATTACHED = {
    "nvidia-tesla-t4": (1, 2, 4),
    "nvidia-tesla-p4": (1, 2, 4),
    "nvidia-tesla-p100": (1, 2, 4),
    "nvidia-tesla-v100": (1, 2, 4, 8),
}
"""GPUs that are added to machines -> how many a machine may have."""
BUILT_IN = ("a2-", "a3-", "a4", "g2-", "g4-")
"""Machine types that bring their GPUs."""
_QUOTAS = {
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
}
_KIND = re.compile(r"(?P<machine>[^+]+)\+(?P<count>\d+)x(?P<gpu>.+)")


def is_machine_type(name: str) -> bool:
    """By its shape: the price book does not list every size."""
    return _TYPE_NAME.fullmatch(name) is not None


def region_of(zone: str) -> str:
    return zone.rpartition("-")[0]


def kind_name(machine_type: str, gpu: str = "", count: int = 0) -> str:
    """What offers call it: GPUs that are added make another kind of machine."""
    return f"{machine_type}+{count}x{gpu}" if gpu and count else machine_type


def parts_of(kind: str) -> tuple[str, str, int]:
    """Machine type, and the GPUs that are added to it."""
    found = _KIND.fullmatch(kind)
    if found is None:
        return kind, "", 0
    return found["machine"], found["gpu"], int(found["count"])


def quota_family(machine_type: str, gpu: str) -> str:
    """The metric of a region that counts such machines first: their GPUs, else their CPUs."""
    if gpu:
        return _QUOTAS.get(gpu, f"{gpu.removeprefix('nvidia-').upper().replace('-', '_')}_GPUS")
    series = machine_type.partition("-")[0]
    return "CPUS" if series in ("n1", "e2", "f1", "g1", "custom") else f"{series.upper()}_CPUS"


def quota_metric(family: str, limits: Mapping[str, float], *, spot: bool) -> str:
    """Of the limits of a region. CPUs of spot machines have one of their own only where the project asked for it."""
    own = f"PREEMPTIBLE_{family}"
    return own if spot and (limits.get(own) or family.endswith("_GPUS")) else family


def quota_of(machine_type: str, gpu: str, limits: Mapping[str, float], spot: bool) -> str:
    """The metric that counts the GPUs of such machines, or without a GPU their CPUs, for `det deploy`."""
    return quota_metric(quota_family(machine_type, gpu), limits, spot=spot)


def short(gpu: str) -> str:
    """`nvidia-tesla-a100` -> `A100`: as jobs ask for it."""
    return gpu.removeprefix("nvidia-").removeprefix("tesla-").upper().replace("-", " ")


def last(url: str) -> str:
    """`https://.../zones/us-central1-a` -> `us-central1-a`."""
    return url.rsplit("/", 1)[-1]
