"""Which device nodes of the machine a task sees: those of its GPUs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.environment import Node
from agent_bootstrap.protocol import ContainerSpec, SlotKind

SHARED = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-caps")
"""The driver's own: every program that computes on a GPU opens them."""
FABRIC = ("/dev/infiniband", "/dev/gdrdrv", "/dev/nvidia-caps-imex-channels")
"""By which GPUs of several nodes talk."""

log = logging.getLogger(__name__)


def task_devices(spec: ContainerSpec, node: Node) -> list[str]:
    """None for a task without GPUs."""
    uuids = {s.uuid for s in node.slots if s.kind is SlotKind.CUDA and s.id in spec.slot_ids}
    if not uuids:
        return []
    existing = [str(path) for path in Path("/dev").iterdir()]
    return sorted(chosen(existing, _minor_numbers(uuids)))


def chosen(existing: Iterable[str], minors: Collection[int] | None) -> list[str]:
    """Pure. `minors` None: nobody could say which GPU is which node, so all are shown."""
    wanted = {*SHARED, *FABRIC} | {f"/dev/nvidia{minor}" for minor in minors or ()}
    is_gpu = [path for path in existing if path.removeprefix("/dev/nvidia").isdigit()]
    return [path for path in existing if path in wanted or (minors is None and path in is_gpu)]


def _minor_numbers(uuids: Collection[str]) -> set[int] | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            return {_minor(pynvml, uuid) for uuid in uuids}
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        log.warning("device nodes of GPUs are not known: %s; tasks see all of them", error)
        return None


def _minor(nvml: Any, uuid: str) -> int:
    """Of a MIG slice: of the GPU that it is a part of."""
    handle = nvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    if uuid.startswith("MIG-"):
        handle = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    return int(nvml.nvmlDeviceGetMinorNumber(handle))
