"""Machines that pools buy of clouds, by keys of their sections."""

from __future__ import annotations

from typing import Any

from provisioner.sections.aws import AwsMachines, AwsSection
from provisioner.sections.cloud import PoolMachines
from provisioner.sections.gcp import GcpMachines, GcpSection


def aws_machines(pool: str = "gpu", *, may_stop: bool = False, **keys: Any) -> AwsMachines:
    section = AwsSection.model_validate({"type": "aws", **keys})
    return PoolMachines(pool=pool, section=section, may_stop=may_stop)


def gcp_machines(pool: str = "gpu", *, may_stop: bool = False, **keys: Any) -> GcpMachines:
    """`machine_type`, `gpu_type` and `gpu_num` are those of `instance_type`."""
    machine = {key: keys.pop(key) for key in ("machine_type", "gpu_type", "gpu_num") if key in keys}
    section = GcpSection.model_validate({"type": "gcp", "instance_type": machine, **keys})
    return PoolMachines(pool=pool, section=section, may_stop=may_stop)
