"""What this machine can give: GPUs by NVML, or one CPU slot, or artificial slots for tests and demos."""

from __future__ import annotations

import logging
import os
import platform
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.protocol import Slot, SlotKind

log = logging.getLogger(__name__)
_SLOT_NAMESPACE = uuid.UUID("6f0cf6c6-6f4c-4b0e-9d2a-5f3f0c9d7a10")
"""Artificial and CPU slots have no serial number: theirs is derived from the agent's id, so that it never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One NVIDIA GPU as NVML names it."""

    index: int
    uuid: str
    name: str
    pci: str = ""
    serial: str = ""

    def is_called(self, name: str) -> bool:
        """True for its index, its serial, its PCI id, or the beginning of its UUID (as CUDA accepts)."""
        if name.isdigit():
            return name in (str(self.index), self.serial)
        wanted = name.lower()
        return self.uuid.lower().startswith(wanted) or self.pci.lower().endswith(wanted)


def detect_slots(
    options: AgentOptions, environ: Mapping[str, str] = os.environ
) -> tuple[Slot, ...]:
    """The slots that this agent offers. A missing driver means no GPU, not an error."""
    if options.artificial_slots:
        return tuple(
            Slot(id=i, kind=SlotKind.ARTIFICIAL, brand="Artificial", uuid=_stable(options, i))
            for i in range(options.artificial_slots)
        )
    if options.slot_type == "none":
        return ()
    if options.slot_type in ("auto", "cuda"):
        names = options.visible_gpus or environ.get("CUDA_VISIBLE_DEVICES")
        gpus = choose(nvidia_gpus(), names)
        if gpus or options.slot_type == "cuda":
            return tuple(
                Slot(id=i, kind=SlotKind.CUDA, brand=gpu.name, uuid=gpu.uuid)
                for i, gpu in enumerate(gpus)
            )
    return (Slot(id=0, kind=SlotKind.CPU, brand=_cpu_model(), uuid=_stable(options, 0)),)


def choose(gpus: Sequence[Gpu], names: str | None) -> list[Gpu]:
    """Those named, in the order of the list; it ends at the first unknown name, as in CUDA. None: all."""
    if names is None:
        return list(gpus)
    chosen: list[Gpu] = []
    for name in names.split(","):
        match = next((gpu for gpu in gpus if name.strip() and gpu.is_called(name.strip())), None)
        if match is None:
            break
        if match not in chosen:
            chosen.append(match)
    return chosen


def nvidia_gpus() -> list[Gpu]:
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.debug("no NVIDIA driver: %s", error)
        return []
    try:
        return [_describe(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        log.warning("GPUs cannot be listed: %s", error)
        return []
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _describe(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    serial = ""
    with suppress(nvml.NVMLError):  # consumer cards have none
        serial = _text(nvml.nvmlDeviceGetSerial(handle))
    return Gpu(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        pci=_text(nvml.nvmlDeviceGetPciInfo(handle).busId),
        serial=serial,
    )


def _text(value: Any) -> str:
    """Older bindings answer bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _stable(options: AgentOptions, index: int) -> str:
    return str(uuid.uuid5(_SLOT_NAMESPACE, f"{options.agent_id}/{index}"))


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
