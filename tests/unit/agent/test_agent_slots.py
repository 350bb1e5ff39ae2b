"""Which slots a machine offers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_bootstrap.agent import slots as subject
from agent_bootstrap.agent.daemon import AgentDaemon
from agent_bootstrap.agent.gpus.gpu import FoundGpus, Gpu
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.slots import Hardware, find_hardware
from agent_bootstrap.protocol import AgentChannel, Hello, SlotKind
from tests.fakes.fake_nvml import eight_gpus
from tests.fakes.fake_runtime import FakeRuntime
from tests.fakes.memory_channel import memory_channel

AMD = Gpu(slot=0, kind=SlotKind.ROCM, index=0, uuid="GPU-00000000000000aa", name="MI300X")
SLURM = {"SLURM_JOB_ID": "7"}


def hardware(environ: Mapping[str, str] | None = None, **settings: object) -> Hardware:
    options = parse_options({"master_host": "m", "agent_id": "a", **settings})
    return find_hardware(options, environ or {})


def slots_of(environ: Mapping[str, str] | None = None, **settings: object) -> list[tuple[int, str]]:
    return [(slot.id, slot.uuid) for slot in hardware(environ, **settings).slots]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", eight_gpus())


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)


def test_artificial_slots_are_the_same_every_time_and_differ_between_agents() -> None:
    first = slots_of(artificial_slots=3)
    assert first == slots_of(artificial_slots=3)
    assert [s.kind for s in hardware(artificial_slots=3).slots] == [SlotKind.ARTIFICIAL] * 3
    others = slots_of(artificial_slots=3, agent_id="b")
    assert not {uuid for _, uuid in first} & {uuid for _, uuid in others}


@pytest.mark.usefixtures("nvml")
def test_slots_are_the_gpus_and_slices_of_the_machine() -> None:
    whole = [(n, f"GPU-{n}aaa") for n in range(7)]
    assert slots_of() == [*whole, (1070, "MIG-0bbb"), (1072, "MIG-2bbb")]
    assert [slot.brand for slot in hardware().slots][-1] == "NVIDIA H200 MIG 1g.18gb"
    assert {slot.memory_mib for slot in hardware().slots} == {143_771, 16_384}
    assert [slot.kind for slot in hardware(slot_type="cpu").slots] == [SlotKind.CPU]
    assert slots_of(slot_type="none") == []


@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize(
    ("visible", "slots"),
    [
        ("3", [3]),
        ("5,GPU-1", [1, 5]),
        ("7:2, 165001", [1, 1072]),
        ("7", [1070, 1072]),
        ("all", [0, 1, 2, 3, 4, 5, 6, 1070, 1072]),
    ],
)
def test_hidden_gpus_do_not_shift_the_numbers_of_others(visible: str, slots: list[int]) -> None:
    found = hardware({"CUDA_VISIBLE_DEVICES": "0"}, visible_gpus=visible)
    assert [slot.id for slot in found.slots] == [gpu.slot for gpu in found.gpus] == slots
    assert found.notes == ()


@pytest.mark.usefixtures("nvml")
def test_a_name_that_no_gpu_has_is_told_and_the_rest_works() -> None:
    found = hardware(visible_gpus="3,99,5")
    assert [slot.id for slot in found.slots] == [3, 5]
    assert found.notes == ('visible_gpus: no GPU of this machine is called "99"',)


@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize(
    ("environ", "slots", "notes"),
    [
        ({"CUDA_VISIBLE_DEVICES": "5,1"}, [1, 5], 0),
        ({"CUDA_VISIBLE_DEVICES": ""}, [], 0),
        ({"CUDA_VISIBLE_DEVICES": "1,99,5"}, [1], 0),
        (SLURM | {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, [], 0),
        (SLURM | {"CUDA_VISIBLE_DEVICES": "MIG-2bbb"}, [1072], 0),
        (SLURM | {"SLURM_JOB_GPUS": "0,2"}, [0, 2], 0),
        (SLURM | {"SLURM_STEP_GPUS": "4", "SLURM_JOB_GPUS": "0,2"}, [4], 0),
        (SLURM | {"SLURM_JOB_GPUS": "8,9,10,11,12,13,14,15"}, [0, 1, 2, 3, 4, 5, 6, 1070, 1072], 0),
        (SLURM, [], 1),
        ({"PBS_JOBID": "1.pbs"}, [], 1),
    ],
)
def test_what_a_batch_system_gave_is_all_that_is_used(
    environ: dict[str, str], slots: list[int], notes: int
) -> None:
    found = hardware(environ, slot_type="cuda")
    assert [slot.id for slot in found.slots] == slots
    assert len([note for note in found.notes if "visible_gpus" in note]) == notes


@pytest.mark.usefixtures("no_nvml")
def test_without_a_driver_a_jobs_list_is_the_truth() -> None:
    assert slots_of(SLURM | {"CUDA_VISIBLE_DEVICES": "2,3"}) == [(2, "2"), (3, "3")]
    listed = "MIG-aa,MIG-bb"
    assert slots_of(SLURM | {"CUDA_VISIBLE_DEVICES": listed}) == [(0, "MIG-aa"), (1, "MIG-bb")]
    assert hardware(SLURM | {"CUDA_VISIBLE_DEVICES": "2"}).gpus[0].nodes is None
    assert [s.kind for s in hardware({"CUDA_VISIBLE_DEVICES": "2"}).slots] == [SlotKind.CPU]


@pytest.mark.usefixtures("no_nvml")
def test_without_gpus_the_processor_is_the_slot_unless_gpus_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject, "amd_gpus", FoundGpus)
    assert [slot.kind for slot in hardware().slots] == [SlotKind.CPU]
    none = hardware(slot_type="cuda")
    assert none.slots == ()
    assert none.notes == (
        "no slots: slot_type is cuda, and the package nvidia-ml-py is not installed",
    )


@pytest.mark.usefixtures("no_nvml")
def test_amd_gpus_come_after_nvidias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "amd_gpus", lambda: FoundGpus(gpus=(AMD,)))
    for slot_type in ("auto", "rocm"):
        (slot,) = hardware(slot_type=slot_type).slots
        assert (slot.kind, slot.uuid, slot.brand) == (SlotKind.ROCM, AMD.uuid, "MI300X")
    assert slots_of({"ROCR_VISIBLE_DEVICES": ""}, slot_type="rocm") == []
    assert slots_of({"CUDA_VISIBLE_DEVICES": ""}, slot_type="rocm") == [(0, AMD.uuid)]


@pytest.mark.usefixtures("nvml")
def test_tasks_of_the_version_before_keep_the_numbers_of_their_slots() -> None:
    options = parse_options({"master_host": "m", "agent_id": "a", "visible_gpus": "5,3"})
    old = find_hardware(options, {}, old_numbers=True)
    assert [(slot.id, slot.uuid) for slot in old.slots] == [(0, "GPU-5aaa"), (1, "GPU-3aaa")]
    assert [gpu.slot for gpu in old.gpus] == [0, 1]
    assert "0.1" in old.notes[-1]
    everything = parse_options({"master_host": "m", "visible_gpus": "0,1"})
    assert find_hardware(everything, {}, old_numbers=True).notes == ()


@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize(("by_index", "slots"), [("false", [0]), ("true", [3])])
async def test_an_agent_sees_by_what_it_finds_which_numbers_are_in_use(
    by_index: str, slots: list[int], tmp_path: Path
) -> None:
    place = tmp_path / "containers" / "c"
    place.mkdir(parents=True)
    (place / "container.json").write_text(
        '{"container_id": "c", "allocation_id": "c.1", "task_id": "c", "slot_ids": [0], '
        f'"slots_by_index": {by_index}, "boot_id": "b"}}'
    )
    theirs, ours = memory_channel()

    async def connect(_: str) -> AgentChannel:
        return theirs

    options = parse_options({"master_host": "m", "work_dir": str(tmp_path), "visible_gpus": "3"})
    agent = AgentDaemon(options, connect=connect, open_runtime=lambda *_: FakeRuntime())
    running = asyncio.create_task(agent.run())
    try:
        hello = await ours.receive()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert isinstance(hello, Hello)
    assert [slot.id for slot in hello.slots] == slots
