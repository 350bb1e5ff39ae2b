"""What is to be made: Terraform's variables, the script of the master's machine, the secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.deploy.cloud.options import CommonOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployPlan:
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
