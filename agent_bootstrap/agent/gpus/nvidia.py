"""NVIDIA GPUs by NVML. A slice of a GPU in MIG mode is a GPU of its own; the whole one is then none."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.gpus.gpu import FoundGpus, Gpu, slice_slot
from agent_bootstrap.protocol import SlotKind

MIG_MINORS = Path("/proc/driver/nvidia-caps/mig-minors")
"""Which node of /dev/nvidia-caps opens which slice: lines as `gpu0/gi1/ci0/access 13`."""
LOAD_DRIVER = ("nvidia-modprobe", "-u", "-c", "0")
LOAD_LIMIT_S = 30.0
_MIG_MINOR = re.compile(r"(gpu\d+/gi\d+(?:/ci\d+)?)/access (\d+)")


def nvidia_gpus(nvml: Any = None, mig_minors: Path = MIG_MINORS) -> FoundGpus:
    """Never raises: what cannot be read becomes a note, and the rest works."""
    nvml = nvml or _library()
    if nvml is None:
        return FoundGpus(absent="the package nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        missing = (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED)
        if error.value in missing:
            return FoundGpus(absent=f"NVML: {error}")
        return FoundGpus(notes=(f"NVIDIA GPUs cannot be used: {_words(error)}",))
    try:
        return _Reader(nvml, _minors(mig_minors)).read_all()
    except nvml.NVMLError as error:
        return FoundGpus(notes=(f"NVIDIA GPUs cannot be listed: {_words(error)}",))
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def load_driver(dev: Path = Path("/dev")) -> tuple[str, ...]:
    """Make the node that CUDA needs: tasks have no right to. Says so if it cannot be made."""
    node = dev / "nvidia-uvm"
    if node.exists() or not (dev / "nvidiactl").exists():
        return ()
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(LOAD_DRIVER, capture_output=True, timeout=LOAD_LIMIT_S, check=False)
    if node.exists():
        return ()
    return (f"{node} is missing, so CUDA cannot start: run `{' '.join(LOAD_DRIVER)}` as root",)


class _Reader:
    def __init__(self, nvml: Any, mig_minors: Mapping[str, str]) -> None:
        self._nvml = nvml
        self._mig_minors = mig_minors

    def read_all(self) -> FoundGpus:
        gpus: list[Gpu] = []
        notes = []
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                found = self._read(index)
            except self._nvml.NVMLError as error:
                notes.append(f"GPU {index} cannot be used: {_words(error)}")
                continue
            if not found:
                notes.append(f"GPU {index} is in MIG mode and has no slices: it offers no slot")
            gpus += found
        return FoundGpus(gpus=tuple(gpus), notes=tuple(notes))

    def _read(self, index: int) -> list[Gpu]:
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        minor = self._nvml.nvmlDeviceGetMinorNumber(handle)
        serial = ""
        with suppress(self._nvml.NVMLError):  # consumer cards have none
            serial = _text(self._nvml.nvmlDeviceGetSerial(handle))
        gpu = Gpu(
            slot=index,
            kind=SlotKind.CUDA,
            index=index,
            uuid=_text(self._nvml.nvmlDeviceGetUUID(handle)),
            name=_text(self._nvml.nvmlDeviceGetName(handle)),
            memory_mib=self._memory_mib(handle),
            pci=_text(self._nvml.nvmlDeviceGetPciInfo(handle).busId),
            serial=serial,
            nodes=(f"/dev/nvidia{minor}",),
        )
        return list(self._slices(gpu, handle, minor)) if self._is_cut(handle) else [gpu]

    def _is_cut(self, handle: Any) -> bool:
        with suppress(self._nvml.NVMLError):  # most models cannot be
            current, _ = self._nvml.nvmlDeviceGetMigMode(handle)
            return bool(current)
        return False

    def _slices(self, whole: Gpu, handle: Any, minor: int) -> Iterator[Gpu]:
        for number in range(self._nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                part = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            except self._nvml.NVMLError:
                continue  # nothing of that number
            yield Gpu(
                slot=slice_slot(whole.index, number),
                kind=SlotKind.CUDA,
                index=whole.index,
                uuid=_text(self._nvml.nvmlDeviceGetUUID(part)),
                name=self._slice_name(whole, part),
                memory_mib=self._memory_mib(part),
                pci=whole.pci,
                serial=whole.serial,
                card=whole.uuid,
                nodes=self._slice_nodes(whole, part, minor),
            )

    def _memory_mib(self, handle: Any) -> int | None:
        with suppress(
            self._nvml.NVMLError
        ):  # machines whose GPU shares the memory of its processors
            return int(self._nvml.nvmlDeviceGetMemoryInfo(handle).total) // 2**20
        return None

    def _slice_name(self, whole: Gpu, part: Any) -> str:
        with suppress(self._nvml.NVMLError):  # old drivers
            return _text(self._nvml.nvmlDeviceGetName(part))
        return f"{whole.name} MIG"

    def _slice_nodes(self, whole: Gpu, part: Any, minor: int) -> tuple[str, ...] | None:
        """The whole GPU's, and those that open this slice."""
        instance = f"gpu{minor}/gi{self._nvml.nvmlDeviceGetGpuInstanceId(part)}"
        compute = f"{instance}/ci{self._nvml.nvmlDeviceGetComputeInstanceId(part)}"
        if not {instance, compute} <= self._mig_minors.keys():
            return None
        caps = (f"/dev/nvidia-caps/nvidia-cap{self._mig_minors[n]}" for n in (instance, compute))
        return (*(whole.nodes or ()), *caps)


def _library() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def _minors(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {m[1]: m[2] for line in lines if (m := _MIG_MINOR.fullmatch(line.strip()))}


def _words(error: Exception) -> str:
    """NVML's own word for the commonest fault tells nobody what to do."""
    if "mismatch" in str(error).lower():
        return "the NVIDIA driver and its library have different versions: restart the machine"
    return str(error)


def _text(value: Any) -> str:
    """Older bindings answer bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
