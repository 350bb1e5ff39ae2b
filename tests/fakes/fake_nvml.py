"""NVML of a machine that a test describes. Stands where the module `pynvml` stands; its errors are the real ones.

`test_agent_gpus.py` checks that each call here has the name, and the arguments, of the real library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml


@dataclass
class FakeSlice:
    uuid: str
    instance: int
    compute: int = 0
    name: str = "NVIDIA H200 MIG 1g.18gb"
    memory_mib: int | None = 16_384


@dataclass
class FakeGpu:
    uuid: str
    minor: int
    name: str = "NVIDIA H200"
    memory_mib: int | None = 143_771
    """None: it shares the memory of its processors."""
    serial: str | None = None
    is_cut: bool = False
    slices: dict[int, FakeSlice] = field(default_factory=dict)
    """By their number: there may be gaps."""
    broken: int | None = None
    """The error code of whatever is asked of it."""


@dataclass
class FakeNvml:
    gpus: list[FakeGpu]
    no_start: int | None = None
    """The error code of the first call."""
    is_open: bool = False

    NVMLError = pynvml.NVMLError
    NVML_ERROR_LIBRARY_NOT_FOUND = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    NVML_ERROR_DRIVER_NOT_LOADED = pynvml.NVML_ERROR_DRIVER_NOT_LOADED

    def nvmlInit(self) -> None:
        if self.no_start is not None:
            raise pynvml.NVMLError(self.no_start)
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        assert self.is_open
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        gpu = self.gpus[index]
        if gpu.broken is not None:
            raise pynvml.NVMLError(gpu.broken)
        return gpu

    def nvmlDeviceGetMinorNumber(self, handle: FakeGpu) -> int:
        return handle.minor

    def nvmlDeviceGetSerial(self, handle: FakeGpu) -> str:
        return self._supported(handle.serial)

    def nvmlDeviceGetUUID(self, handle: FakeGpu | FakeSlice) -> str:
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeGpu | FakeSlice) -> str:
        return handle.name

    def nvmlDeviceGetMemoryInfo(
        self, handle: FakeGpu | FakeSlice, version: int | None = None
    ) -> SimpleNamespace:
        self._supported(None if handle.memory_mib is None else "")
        return SimpleNamespace(total=(handle.memory_mib or 0) * 2**20 + 2**19)

    def nvmlDeviceGetPciInfo(self, handle: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(busId=f"00000000:{handle.minor + 1:02X}:00.0")

    def nvmlDeviceGetMigMode(self, device: FakeGpu) -> list[int]:
        self._supported("" if device.is_cut else None)
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: FakeGpu) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: FakeGpu, index: int) -> FakeSlice:
        if index not in device.slices:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return device.slices[index]

    def nvmlDeviceGetGpuInstanceId(self, device: FakeSlice) -> int:
        return device.instance

    def nvmlDeviceGetComputeInstanceId(self, device: FakeSlice) -> int:
        return device.compute

    @staticmethod
    def _supported(value: str | None) -> str:
        if value is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return value


MIG_MINORS = """config 1
monitor 2
gpu7/gi1/access 30
gpu7/gi1/ci0/access 31
gpu7/gi5/access 66
gpu7/gi5/ci0/access 67
"""
"""Of the driver, for `eight_gpus`."""


def eight_gpus() -> FakeNvml:
    """The last one is in MIG mode, with two slices. Minor numbers do not follow the indices."""
    whole = [
        FakeGpu(uuid=f"GPU-{n}aaa", minor=(n + 3) % 7, serial=f"16500{n}" if n else None)
        for n in range(7)
    ]
    slices = {0: FakeSlice("MIG-0bbb", 1), 2: FakeSlice("MIG-2bbb", 5)}
    return FakeNvml(
        [*whole, FakeGpu(uuid="GPU-7aaa", minor=7, is_cut=True, slices=slices)],
    )
