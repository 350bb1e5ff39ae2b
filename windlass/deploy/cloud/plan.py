"""What is to be made: Terraform's variables, the script of the master's machine, the secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.base.errors import InvalidConfig
from windlass.deploy.cloud.options import CommonOptions

MOST_BOOT_BYTES = 14 * 1024
"""AWS takes 16 KB of user data; ids and addresses are filled in later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    cloud: str
    """aws or gcp: also the folder of Terraform's modules."""
    options: CommonOptions
    variables: Mapping[str, Any]
    """terraform.tfvars.json: kept, and no secret."""
    secrets: Mapping[str, Any] = field(repr=False)
    """`config`: over master.yaml. `files`: texts by path. Goes to the cloud's store of secrets, and nowhere else."""
    given_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those of the options, by name; what was drawn at random is not there."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For Terraform: credentials by name."""
    state_bucket: str = ""

    @property
    def cluster_id(self) -> str:
        return self.options.cluster_id


def checked_size(boot: str) -> str:
    size = len(boot.encode())
    if size > MOST_BOOT_BYTES:
        raise InvalidConfig(
            [
                f"has {size} bytes with what the master's machine starts with; {MOST_BOOT_BYTES} fit: "
                "leave comments out, or shorten --master-config-template-path"
            ],
            what="script of the master's machine",
        )
    return boot
