"""Names that AWS gives: regions, zones, families of instance types and the quotas that they count against."""

from __future__ import annotations

import re

REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "us-gov-east-1", "us-gov-west-1"),
    *("ca-central-1", "ca-west-1", "mx-central-1", "sa-east-1", "il-central-1"),
    *("eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2"),
    *("eu-west-1", "eu-west-2", "eu-west-3", "eusc-de-east-1"),
    *("af-south-1", "me-central-1", "me-south-1", "ap-east-1", "ap-east-2"),
    *("ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-south-2"),
    *("ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5"),
    *("ap-southeast-6", "ap-southeast-7", "cn-north-1", "cn-northwest-1"),
)
"""Those of 2026. A newer one is not refused, only one that looks like a misspelt one of these."""
TYPE_NAME = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")

_QUOTAS = {
    "P": ("L-417A185B", "L-7212CCBC"),
    "G and VT": ("L-DB2E81BA", "L-3819A6DF"),
    "Inf": ("L-1945791B", "L-B5D1601B"),
    "Trn": ("L-2C3B7624", "L-6B0D517C"),
    "Standard": ("L-1216C47A", "L-34B43A08"),
}
"""Code of the quota of vCPUs on demand, and of spot."""


def quota_family(instance_type: str) -> str:
    """The group of types that one quota of vCPUs counts together."""
    letters = re.match(r"[a-z]*", instance_type)
    first = letters.group() if letters else ""
    if first.startswith(("inf",)):
        return "Inf"
    if first.startswith("trn"):
        return "Trn"
    if first.startswith("p"):
        return "P"
    if first.startswith(("g", "vt")):
        return "G and VT"
    return "Standard"


def quota_code(family: str, *, spot: bool) -> str:
    return _QUOTAS.get(family, _QUOTAS["Standard"])[spot]


def quota_name(family: str, *, spot: bool) -> str:
    kind = "spot" if spot else "on-demand"
    return f"{kind} {family} instances, in vCPUs ({quota_code(family, spot=spot)})"


def quota_of(instance_type: str, spot: bool) -> tuple[str, str]:
    """Code and name of the quota that counts such machines, for `det deploy`."""
    family = quota_family(instance_type)
    return quota_code(family, spot=spot), quota_name(family, spot=spot)


def is_zone_of(zone: str, region: str) -> bool:
    """`us-east-1a`, and local zones such as `us-west-2-lax-1a`."""
    return re.fullmatch(rf"{re.escape(region)}(-[a-z]+-\d+)?[a-z]", zone) is not None
