"""Which device nodes of the machine a task sees: those of its GPUs, and none without one."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.gpus.gpu import Gpu
from agent_bootstrap.protocol import ContainerSpec, SlotKind

SHARED = {
    SlotKind.CUDA: ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
    SlotKind.ROCM: ("/dev/kfd",),
}
"""The driver's own: every program that computes on a GPU opens them."""
FABRIC = ("/dev/infiniband", "/dev/gdrdrv", "/dev/nvidia-caps-imex-channels")
"""By which GPUs of several nodes talk."""
ANY = {
    SlotKind.CUDA: re.compile(r"/dev/nvidia\d+|/dev/nvidia-caps/nvidia-cap([3-9]|\d\d+)"),
    SlotKind.ROCM: re.compile(r"/dev/dri/(card|renderD)\d+"),
}
"""Of all GPUs. The nodes nvidia-cap1 and nvidia-cap2 are for whoever cuts GPUs into slices."""
FOLDERS = ("/dev", "/dev/dri", "/dev/nvidia-caps")


def task_gpus(spec: ContainerSpec, node: NodeFacts) -> list[Gpu]:
    return [gpu for gpu in node.gpus if gpu.slot in spec.slot_ids]


def task_devices(gpus: Sequence[Gpu]) -> list[str]:
    """Of this machine."""
    existing: list[str] = []
    for folder in FOLDERS:
        with suppress(OSError):
            existing += [str(path) for path in Path(folder).iterdir()]
    return device_plan(gpus, existing)


def device_plan(gpus: Sequence[Gpu], existing: Iterable[str]) -> list[str]:
    """Pure. Where nobody could say which node is whose, all of the kind are shown."""
    kinds = {gpu.kind for gpu in gpus}
    unclear = {gpu.kind for gpu in gpus if gpu.nodes is None}
    wanted = {node for gpu in gpus for node in gpu.nodes or ()}
    wanted |= {node for kind in kinds for node in SHARED[kind]}
    if gpus:
        wanted |= set(FABRIC)
    return sorted(
        path
        for path in existing
        if path in wanted or any(ANY[kind].fullmatch(path) for kind in unclear)
    )


def device_groups(devices: Collection[str]) -> list[int]:
    """The groups that may open these nodes where not everybody may: `render` and `video` of AMD GPUs."""
    found = set()
    for path in devices:
        with suppress(OSError):
            told = os.stat(path)  # noqa: PTH116
            closed = stat.S_ISCHR(told.st_mode) and not told.st_mode & stat.S_IWOTH
            if closed and told.st_mode & stat.S_IWGRP and told.st_gid != 0:
                found.add(told.st_gid)
    return sorted(found)
