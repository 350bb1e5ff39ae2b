"""Machines of clouds that tasks cannot use, and why: told wherever an instance type is chosen. Pure."""

from __future__ import annotations

import re

_NEURON = re.compile(r"(trn|inf)\d")
_OTHER_DEVICES = re.compile(r"(dl\d|vt\d)")
_ARM_WITH_GPUS = re.compile(r"g5g\.")


def why_unusable(instance_type: str, *, says_slots: bool) -> str:
    """Empty: tasks can use it. `says_slots`: the operator says how many slots it has, and so knows it."""
    if _NEURON.match(instance_type):
        return (
            f"{instance_type} has AWS Neuron devices, which no runtime of Windlass gives to tasks: use a type with "
            "NVIDIA GPUs, such as g5.xlarge or p4d.24xlarge"
        )
    if _OTHER_DEVICES.match(instance_type):
        return (
            f"{instance_type} has no GPUs but devices that no runtime of Windlass gives to tasks: use a type with "
            "NVIDIA GPUs, such as g5.xlarge or p4d.24xlarge"
        )
    if _ARM_WITH_GPUS.match(instance_type) and not says_slots:
        return (
            f"{instance_type} has Arm processors: software and images for x86_64, as masters and tasks mostly have "
            "them, do not run there. Use g4dn (the same GPU); or give its slots (instance_slots, "
            "--compute-agent-slots), if yours are made for Arm"
        )
    return ""
