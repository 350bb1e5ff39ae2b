"""Tasks on real GPUs: each sees its own and no other, and computes on it. Needs an NVIDIA GPU: `make test-gpu`."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.agent.slots import Hardware, find_hardware
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import ContainerSpec, FileItem
from tests.jails import open_way_to, works_or_skip

PROGRAM = Path(__file__).with_name("cuda_program.py")
SCRIPT = "/run/determined/workdir/cuda_program.py"
TORCH = "import torch; x = torch.ones(64, device='cuda'); print('SAID', float((x @ x).item()))"

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def hardware() -> Hardware:
    found = find_hardware(parse_options({"master_host": "m", "slot_type": "cuda"}), {})
    if not found.gpus:
        pytest.skip(f"this machine has no NVIDIA GPU: {'; '.join(found.notes)}")
    return found


@pytest.fixture(params=["bubblewrap", "namespace", "directory"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    works_or_skip(request.param, tmp_path)
    open_way_to(tmp_path / "x")
    settings = {"master_host": "m", "isolation": request.param, "work_dir": str(tmp_path)}
    return open_runtime("process", RuntimeSetup(options=parse_options(settings)))


async def said_by(
    runtime: Runtime,
    hardware: Hardware,
    place: ContainerDir,
    *slots: int,
    words: tuple[str, ...] = ("{python}", SCRIPT),
    python: str = "",
) -> Any:
    """What the program in a task on these slots says."""
    content = base64.b64encode(PROGRAM.read_bytes()).decode()
    spec = ContainerSpec(
        container_id=place.path.name,
        allocation_id="a",
        task_id="t",
        task_type="COMMAND",
        slot_ids=slots,
        entrypoint=words if runtime.isolation != "directory" else _by_variable(words),
        environment={},
        files=(FileItem(path=SCRIPT, content_b64=content),),
        options=ContainerOptions(python=python),
    )
    node = NodeFacts(
        master_url="http://127.0.0.1:1",
        agent_id="a",
        cluster_id="c",
        master_id="m",
        slots=hardware.slots,
        gpus=hardware.gpus,
    )
    place.create(ContainerRecord.of(spec))
    await runtime.start(place, spec, node)
    verdict = await runtime.wait(place)
    output = place.output.read_text() if place.output.exists() else ""
    lines = [line.partition("SAID ")[2] for line in output.splitlines()]
    assert verdict.exit_code == 0, (verdict, output)
    return json.loads(next(line for line in lines if line))


def _by_variable(words: tuple[str, ...]) -> tuple[str, ...]:
    """Where nothing is mounted, the task's own folder has another name."""
    return tuple(word.replace(SCRIPT, "cuda_program.py") for word in words)


async def test_tasks_beside_each_other_see_their_own_gpus(
    runtime: Runtime, hardware: Hardware, tmp_path: Path
) -> None:
    gpus = [gpu for gpu in hardware.gpus if not gpu.card][:2]
    if not gpus:
        pytest.skip("all GPUs of this machine are cut into slices")
    told = await asyncio.gather(
        *(said_by(runtime, hardware, ContainerDir(tmp_path / gpu.uuid), gpu.slot) for gpu in gpus)
    )
    for gpu, one in zip(gpus, told, strict=True):
        assert (one["smi"], one["uuids"], one["kernels"]) == ([gpu.uuid], [gpu.uuid], 1), one
        if runtime.isolation != "directory":
            assert tuple(f"/dev/{node}" for node in one["nodes"]) == gpu.nodes


async def test_a_task_without_slots_sees_none(
    runtime: Runtime, hardware: Hardware, tmp_path: Path
) -> None:
    told = await said_by(runtime, hardware, ContainerDir(tmp_path / "none"))
    assert (told["smi"], told["uuids"], told["kernels"]) == ([], [], 0)
    if runtime.isolation != "directory":
        assert told["nodes"] == []


async def test_torch_computes_on_the_gpu(
    runtime: Runtime, hardware: Hardware, tmp_path: Path
) -> None:
    python = os.environ.get("WINDLASS_TEST_TORCH")
    if not python:
        pytest.skip("WINDLASS_TEST_TORCH names no Python with torch")
    slot = hardware.slots[0].id
    place = ContainerDir(tmp_path / "torch")
    words = ("python3", "-c", TORCH)
    assert await said_by(runtime, hardware, place, slot, words=words, python=python) == 64.0


def test_what_nvml_says_is_what_nvidia_smi_says(hardware: Hardware) -> None:
    query = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=True)
    assert [tuple(line.split(", ")) for line in done.stdout.splitlines()] == list(
        dict.fromkeys((str(gpu.index), gpu.whole) for gpu in hardware.gpus)
    )
