"""Which GPUs a machine has: by NVML, by the tools of ROCm, and what cannot be used."""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pynvml
import pytest

from agent_bootstrap.agent.gpus import amd
from agent_bootstrap.agent.gpus.gpu import Gpu
from agent_bootstrap.agent.gpus.nvidia import nvidia_gpus
from agent_bootstrap.protocol import SlotKind
from tests.fakes.fake_nvml import MIG_MINORS, FakeGpu, FakeNvml, eight_gpus

AMD_SMI = [
    {
        "gpu": 0,
        "asic": {
            "market_name": "AMD Instinct MI300X",
            "vendor_id": "0x1002",
            "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
            "device_id": "0x74a1",
            "rev_id": "0x00",
            "asic_serial": "0x8029B6A3C7F5E8D2",
            "oam_id": 2,
        },
        "bus": {"bdf": "0000:23:00.0", "max_pcie_width": 16},
    },
    {
        "gpu": 1,
        "asic": {"market_name": "AMD Radeon", "asic_serial": "N/A"},
        "bus": {"bdf": "0000:C3:00.0"},
    },
]
ROCM_SMI = {
    "card1": {
        "Unique ID": "N/A",
        "Serial Number": "N/A",
        "PCI Bus": "0000:C3:00.0",
        "Card series": "AMD Radeon",
    },
    "card0": {
        "Unique ID": "0x8029b6a3c7f5e8d2",
        "Serial Number": "692231000131",
        "PCI Bus": "0000:23:00.0",
        "Card series": "AMD Instinct MI300X",
        "Card model": "0x74a1",
    },
    "system": {"Driver version": "6.7.0"},
}


@pytest.fixture
def mig_minors(tmp_path: Path) -> Path:
    path = tmp_path / "mig-minors"
    path.write_text(MIG_MINORS)
    return path


def test_the_fake_speaks_as_the_library_does() -> None:
    for name, ours in inspect.getmembers(FakeNvml, inspect.isfunction):
        if name.startswith("nvml"):
            theirs = inspect.signature(getattr(pynvml, name)).parameters
            assert list(inspect.signature(ours).parameters)[1:] == list(theirs), name


def test_whole_gpus_and_slices_are_gpus_of_their_own(mig_minors: Path) -> None:
    nvml = eight_gpus()
    found = nvidia_gpus(nvml, mig_minors)
    assert (found.notes, nvml.is_open) == ((), False)
    assert [gpu.slot for gpu in found.gpus] == [0, 1, 2, 3, 4, 5, 6, 1070, 1072]
    assert found.gpus[1] == Gpu(
        slot=1,
        kind=SlotKind.CUDA,
        index=1,
        uuid="GPU-1aaa",
        name="NVIDIA H200",
        memory_mib=143_771,
        pci="00000000:05:00.0",
        serial="165001",
        nodes=("/dev/nvidia4",),
    )
    part = found.gpus[-1]
    assert (part.uuid, part.whole, part.name) == ("MIG-2bbb", "GPU-7aaa", "NVIDIA H200 MIG 1g.18gb")
    caps = ("/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67")
    assert part.nodes == ("/dev/nvidia7", *caps)


def test_slices_whose_nodes_nobody_names_say_so(tmp_path: Path) -> None:
    found = nvidia_gpus(eight_gpus(), tmp_path / "missing")
    assert found.gpus[-1].nodes is None


def test_a_gpu_that_fell_off_the_bus_leaves_the_others_their_numbers(mig_minors: Path) -> None:
    nvml = eight_gpus()
    nvml.gpus[2].broken = pynvml.NVML_ERROR_GPU_IS_LOST
    found = nvidia_gpus(nvml, mig_minors)
    assert found.notes == ("GPU 2 cannot be used: GPU is lost",)
    assert [gpu.slot for gpu in found.gpus] == [0, 1, 3, 4, 5, 6, 1070, 1072]


def test_a_gpu_in_mig_mode_without_slices_offers_nothing() -> None:
    found = nvidia_gpus(FakeNvml([FakeGpu(uuid="GPU-1", minor=0, is_cut=True)]))
    assert found.gpus == ()
    assert found.notes == ("GPU 0 is in MIG mode and has no slices: it offers no slot",)


@pytest.mark.parametrize(
    ("code", "notes", "absent"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, (), "NVML: NVML Shared Library Not Found"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, (), "NVML: Driver Not Loaded"),
        (
            pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
            (
                "NVIDIA GPUs cannot be used: the NVIDIA driver and its library have different versions: "
                "restart the machine",
            ),
            "",
        ),
    ],
)
def test_no_driver_is_no_fault_and_a_broken_one_is(
    code: int, notes: tuple[str, ...], absent: str
) -> None:
    found = nvidia_gpus(FakeNvml([], no_start=code))
    assert (found.gpus, found.notes, found.absent) == ((), notes, absent)


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        ("3", [3]),
        ("7", [1070, 1072]),
        ("7:2", [1072]),
        ("3:0", []),
        ("GPU-7", [1070, 1072]),
        ("gpu-3aaa", [3]),
        ("MIG-2bbb", [1072]),
        ("165001", [1]),
        ("04:00.0", [0]),
        ("00000000:04:00.0", [0]),
        ("g", []),
        ("99", []),
    ],
)
def test_gpus_answer_to_all_of_their_names(name: str, slots: list[int], mig_minors: Path) -> None:
    found = nvidia_gpus(eight_gpus(), mig_minors)
    assert [gpu.slot for gpu in found.gpus if gpu.is_called(name)] == slots


class Tools:
    """Answers as programs of ROCm do. None: not installed."""

    def __init__(self, **said: object) -> None:
        self._said = said

    def __call__(self, command: Sequence[str]) -> str | None:
        said = self._said.get(command[0].replace("-", "_"))
        if isinstance(said, Exception):
            raise said
        return said if said is None or isinstance(said, str) else json.dumps(said)


@pytest.mark.parametrize(
    "tools",
    [
        Tools(amd_smi=AMD_SMI, rocm_smi=ROCM_SMI),
        Tools(amd_smi={"gpu_data": AMD_SMI}),
        Tools(rocm_smi=ROCM_SMI),
        Tools(amd_smi=OSError("no such option"), rocm_smi=ROCM_SMI),
    ],
)
def test_amd_gpus_are_found_by_the_tool_that_is_there(tools: Tools, tmp_path: Path) -> None:
    for node in ("card3", "renderD130", "controlD67"):
        (tmp_path / "0000:23:00.0" / "drm" / node).mkdir(parents=True)
    big, small = amd.amd_gpus(tools, tmp_path).gpus
    assert (big.slot, big.kind, big.uuid) == (0, SlotKind.ROCM, "GPU-8029b6a3c7f5e8d2")
    assert (big.name, big.nodes) == (
        "AMD Instinct MI300X",
        ("/dev/dri/card3", "/dev/dri/renderD130"),
    )
    assert (small.slot, small.uuid, small.nodes) == (1, "PCI-0000:c3:00.0", None)


@pytest.mark.parametrize(
    ("tools", "notes", "absent"),
    [
        (Tools(), 0, "neither amd-smi nor rocm-smi is installed"),
        (Tools(rocm_smi="WARNING: no AMD GPUs"), 1, ""),
        (Tools(amd_smi=subprocess.TimeoutExpired("amd-smi", 30)), 1, ""),
        (Tools(amd_smi=[{"gpu": 0}]), 1, ""),
        (Tools(amd_smi=[]), 0, ""),
    ],
)
def test_a_tool_that_fails_is_a_note(tools: Tools, notes: int, absent: str) -> None:
    found = amd.amd_gpus(tools)
    assert (found.gpus, len(found.notes), found.absent) == ((), notes, absent)
