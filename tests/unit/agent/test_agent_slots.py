"""Which slots a machine offers."""

from __future__ import annotations

import pytest

from agent_bootstrap.agent import slots as subject
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.slots import Gpu, choose, detect_slots
from agent_bootstrap.protocol import SlotKind

GPUS = [
    Gpu(index=0, uuid="GPU-aaa1", name="H200", pci="00000000:01:00.0", serial="1650"),
    Gpu(index=1, uuid="GPU-aab2", name="H200", pci="00000000:02:00.0", serial="1651"),
]


def slots_of(**settings: object) -> list[tuple[int, SlotKind, str]]:
    found = detect_slots(parse_options({"master_host": "m", "agent_id": "a", **settings}), {})
    return [(slot.id, slot.kind, slot.uuid) for slot in found]


def test_artificial_slots_are_the_same_every_time_and_differ_between_agents() -> None:
    first = slots_of(artificial_slots=3)
    assert first == slots_of(artificial_slots=3)
    assert [kind for _, kind, _ in first] == [SlotKind.ARTIFICIAL] * 3
    others = slots_of(artificial_slots=3, agent_id="b")
    assert not {uuid for *_, uuid in first} & {uuid for *_, uuid in others}


def test_gpus_come_first_then_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "nvidia_gpus", lambda: GPUS)
    assert slots_of() == [(0, SlotKind.CUDA, "GPU-aaa1"), (1, SlotKind.CUDA, "GPU-aab2")]
    assert slots_of(visible_gpus="1") == [(0, SlotKind.CUDA, "GPU-aab2")]
    assert [kind for _, kind, _ in slots_of(slot_type="cpu")] == [SlotKind.CPU]
    assert slots_of(slot_type="none") == []
    monkeypatch.setattr(subject, "nvidia_gpus", list)
    assert [kind for _, kind, _ in slots_of()] == [SlotKind.CPU]
    assert slots_of(slot_type="cuda") == []


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (None, [0, 1]),
        ("", []),
        ("1,0", [1, 0]),
        ("GPU-aab", [1]),
        ("gpu-aaa1", [0]),
        ("00000000:02:00.0", [1]),
        ("1650", [0]),
        ("0,0", [0]),
        ("0,7,1", [0]),
    ],
)
def test_gpus_are_chosen_by_any_of_their_names(names: str | None, chosen: list[int]) -> None:
    assert [gpu.index for gpu in choose(GPUS, names)] == chosen


def test_a_machine_without_a_driver_has_no_gpu() -> None:
    assert isinstance(subject.nvidia_gpus(), list)
