"""What this machine is doing, as the metric groups of the published profiler, which read it the same way.

psutil and NVML are asked where they are installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, Union

Measured: TypeAlias = Mapping[str, Union[float, "Measured"]]
"""A metric -> its value; or a GPU or a mount point -> its metrics."""
Reader: TypeAlias = Callable[[], Measured]

SHARED_FS = "/determined_shared_fs"


def averaged(samples: Sequence[Measured]) -> dict[str, Any]:
    """The mean of each metric over the samples that have it."""
    collected: dict[str, list[Any]] = {}
    for sample in samples:
        for name, value in sample.items():
            collected.setdefault(name, []).append(value)
    return {
        name: averaged(values)
        if isinstance(values[0], Mapping)
        else sum(float(value) for value in values) / len(values)
        for name, values in collected.items()
    }


class Rates:
    """Counters that only grow, as what they grew by in a second since the last look."""

    def __init__(
        self, read: Callable[[], Mapping[str, float]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._last, self._at = dict(read()), clock()

    def __call__(self) -> dict[str, float]:
        now, counters = self._clock(), dict(self._read())
        seconds = now - self._at
        rates: dict[str, float] = {}
        if seconds > 0:
            # A device that was taken out makes the sum smaller.
            rates = {
                name: max(count - self._last.get(name, count), 0) / seconds
                for name, count in counters.items()
            }
        self._last, self._at = counters, now
        return rates


def machine_readers() -> dict[str, Reader]:
    """Group -> what reads it. Raises ImportError without psutil."""
    import psutil

    def disk_counters() -> dict[str, float]:
        counters = psutil.disk_io_counters()
        if counters is None:  # a machine without disks
            return {}
        return {
            "disk_iops": counters.read_count + counters.write_count,
            "disk_throughput_read": counters.read_bytes,
            "disk_throughput_write": counters.write_bytes,
        }

    def network_counters() -> dict[str, float]:
        counters: Any = psutil.net_io_counters()
        if counters is None:  # nor network
            return {}
        return {
            "net_throughput_sent": counters.bytes_sent,
            "net_throughput_recv": counters.bytes_recv,
        }

    disk_rates, mounts = Rates(disk_counters), [m for m in ("/", SHARED_FS) if Path(m).is_dir()]
    psutil.cpu_percent()  # the first answer is about nothing
    return {
        "cpu": lambda: {"cpu_util_simple": psutil.cpu_percent()},
        "memory": lambda: {"memory_free": psutil.virtual_memory().available},
        "disk": lambda: {
            **disk_rates(),
            **{mount: {"disk_util": psutil.disk_usage(mount).percent} for mount in mounts},
        },
        "network": Rates(network_counters),
    }


def gpu_reader(uuids: Collection[str] | None) -> Reader | None:
    """Of these GPUs, or of all (None). Returns None where NVML sees none of them."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = dict(_gpu_handles(pynvml, uuids))
    except pynvml.NVMLError:
        return None

    def read() -> Measured:
        found: dict[str, Measured] = {}
        for uuid, handle in handles.items():
            with suppress(pynvml.NVMLError):  # a GPU that has just failed: the others go on
                found[uuid] = {
                    "gpu_util": float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
                    "gpu_free_memory": float(pynvml.nvmlDeviceGetMemoryInfo(handle).free),
                }
        return found

    return read if handles else None


def _gpu_handles(pynvml: Any, uuids: Collection[str] | None) -> Iterator[tuple[str, Any]]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        if uuids is None or uuid in uuids:
            yield uuid, handle
