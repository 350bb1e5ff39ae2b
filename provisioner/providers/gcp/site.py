"""Whose machines are bought of Compute Engine, and which images they boot unless their section says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

IMAGE_GPU = "projects/deeplearning-platform-release/global/images/family/common-cu128-ubuntu-2204-nvidia-570"
IMAGE_CPU = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts"
NAME_PREFIX = "windlass-"


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpSite:
    """One project in one region: one `Provider`."""

    name: str
    project: str
    """Empty: that of the credentials."""
    region: str
    endpoint_url: str = ""
    """Empty: Google's own."""
    plural: ClassVar[str] = "projects or regions"

    @property
    def where(self) -> str:
        return f"{self.region} of {self.project}" if self.project else self.region

    @property
    def default_name(self) -> str:
        return "-".join(["gcp", *filter(None, [self.project]), self.region])
