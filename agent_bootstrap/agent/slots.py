"""What this machine can give: GPUs, or one CPU slot, or artificial slots for tests and demos."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent_bootstrap.agent.gpus.amd import amd_gpus
from agent_bootstrap.agent.gpus.gpu import FoundGpus, Gpu
from agent_bootstrap.agent.gpus.nvidia import load_driver, nvidia_gpus
from agent_bootstrap.agent.gpus.selection import select
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.protocol import Slot, SlotKind

_SLOT_NAMESPACE = uuid.UUID("6f0cf6c6-6f4c-4b0e-9d2a-5f3f0c9d7a10")
"""Artificial and CPU slots have no serial number: theirs is derived from the agent's id, so that it never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What the agent offers, and what its operator should know of it."""

    slots: tuple[Slot, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    """Those of the slots."""
    notes: tuple[str, ...] = ()
    takes_work: bool = True
    """False: nothing can run there any more."""


def find_hardware(
    options: AgentOptions, environ: Mapping[str, str] = os.environ, *, old_numbers: bool = False
) -> Hardware:
    """Blocks. A missing driver means no GPU, not an error.

    `old_numbers`: count the GPUs that are offered from 0, as agents before 0.2 did; tasks that they started are known
    to the master by these numbers.
    """
    if options.artificial_slots:
        return Hardware(
            slots=tuple(
                Slot(id=i, kind=SlotKind.ARTIFICIAL, brand="Artificial", uuid=_stable(options, i))
                for i in range(options.artificial_slots)
            )
        )
    cpu = Slot(id=0, kind=SlotKind.CPU, brand=_cpu_model(), uuid=_stable(options, 0))
    if options.slot_type in ("none", "cpu"):
        return Hardware(slots=(cpu,) if options.slot_type == "cpu" else ())
    found = _find(options.slot_type)
    selected = select(found.gpus, options.visible_gpus, environ)
    notes = (*found.notes, *selected.notes)
    gpus = selected.gpus
    if any(gpu.kind is SlotKind.CUDA for gpu in gpus):
        notes = (*notes, *load_driver())
    if old_numbers and any(gpu.slot != i for i, gpu in enumerate(gpus)):
        gpus = tuple(replace(gpu, slot=i) for i, gpu in enumerate(gpus))
        notes = (*notes, "slots keep the numbers that version 0.1 gave them until its tasks ended")
    gpus = tuple(sorted(gpus, key=lambda gpu: gpu.slot))
    if not gpus and options.slot_type == "auto":
        return Hardware(slots=(cpu,), notes=notes)
    if not gpus and not notes:
        why = found.absent or "this machine has no such GPU"
        notes = (f"no slots: slot_type is {options.slot_type}, and {why}",)
    return Hardware(slots=tuple(map(_slot, gpus)), gpus=gpus, notes=notes)


def _find(slot_type: str) -> FoundGpus:
    """auto: NVIDIA's, else AMD's."""
    nvidia = nvidia_gpus() if slot_type != "rocm" else FoundGpus()
    if nvidia.gpus or slot_type == "cuda":
        return nvidia
    amd = amd_gpus()
    return FoundGpus(gpus=amd.gpus, notes=(*nvidia.notes, *amd.notes), absent=amd.absent)


def _slot(gpu: Gpu) -> Slot:
    return Slot(
        id=gpu.slot, kind=gpu.kind, brand=gpu.name, uuid=gpu.uuid, memory_mib=gpu.memory_mib
    )


def _stable(options: AgentOptions, index: int) -> str:
    return str(uuid.uuid5(_SLOT_NAMESPACE, f"{options.agent_id}/{index}"))


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
