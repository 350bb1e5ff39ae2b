"""Whose machines are bought of EC2, and which images they boot unless their section says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

UBUNTU_GPU = (
    "/aws/service/deeplearning/ami/{arch}/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
UBUNTU_CPU = (
    "/aws/service/canonical/ubuntu/server/22.04/stable/current/{canonical_arch}/hvm/ebs-gp2/ami-id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsAccount:
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
    plural: ClassVar[str] = "accounts or regions"

    @property
    def where(self) -> str:
        return f"{self.region} as {self.role}" if self.role else self.region

    @property
    def default_name(self) -> str:
        """With a role, its account is part of the name."""
        return "-".join(["aws", *self.role.split(":")[4:5], self.region])
