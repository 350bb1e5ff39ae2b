"""Which device nodes and which `nvidia-smi` a task gets, on a machine of eight GPUs and one of AMD."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.gpus.gpu import Gpu
from agent_bootstrap.agent.gpus.nvidia import load_driver, nvidia_gpus
from agent_bootstrap.agent.runtimes.devices import device_groups, device_plan, task_gpus
from agent_bootstrap.agent.runtimes.gpu_tools import write_gpu_tools
from agent_bootstrap.protocol import ContainerSpec, SlotKind
from tests.fakes.fake_nvml import MIG_MINORS, eight_gpus

CONTROL = ["/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl"]
EXISTING = [
    *("/dev/null", "/dev/sda", "/dev/infiniband", "/dev/kfd", *CONTROL),
    *(f"/dev/nvidia{n}" for n in range(8)),
    *(f"/dev/nvidia-caps/nvidia-cap{n}" for n in (1, 2, 30, 31, 66, 67)),
    *("/dev/dri/card0", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/nvidia-modeset"),
]
AMD = Gpu(slot=0, index=0, kind=SlotKind.ROCM, uuid="GPU-a", nodes=("/dev/dri/renderD129",))

LISTED = """GPU 0: NVIDIA H200 (UUID: GPU-0aaa)
GPU 1: NVIDIA H200 (UUID: GPU-1aaa)
  MIG 1g.18gb     Device  0: (UUID: MIG-1bbb)
GPU 6: NVIDIA H200 (UUID: GPU-6aaa)
  MIG 1g.18gb     Device  0: (UUID: MIG-6bbb)
GPU 7: NVIDIA H200 (UUID: GPU-7aaa)"""
LISTED_TO_TASK = """GPU 1: NVIDIA H200 (UUID: GPU-1aaa)
  MIG 1g.18gb     Device  0: (UUID: MIG-1bbb)
GPU 7: NVIDIA H200 (UUID: GPU-7aaa)"""


@pytest.fixture
def node(tmp_path: Path) -> NodeFacts:
    (tmp_path / "mig-minors").write_text(MIG_MINORS)
    gpus = nvidia_gpus(eight_gpus(), tmp_path / "mig-minors").gpus
    return NodeFacts(master_url="http://m", agent_id="a", cluster_id="c", master_id="m", gpus=gpus)


def plan(node: NodeFacts, *slot_ids: int) -> list[str]:
    spec = ContainerSpec(
        container_id="c",
        allocation_id="a",
        task_id="t",
        task_type="TRIAL",
        slot_ids=slot_ids,
        entrypoint=("true",),
        environment={},
    )
    return device_plan(task_gpus(spec, node), EXISTING)


def test_a_task_without_slots_has_no_device_of_a_gpu(node: NodeFacts) -> None:
    assert plan(node) == []


def test_two_tasks_of_one_machine_share_no_gpu(node: NodeFacts) -> None:
    # Minor numbers are the driver's, and no indices.
    assert plan(node, 0) == ["/dev/infiniband", *CONTROL[:2], "/dev/nvidia3", CONTROL[2]]
    ours, theirs = set(plan(node, 0, 1, 2)), set(plan(node, 3, 4, 5, 6))
    assert ours & theirs == {"/dev/infiniband", *CONTROL}
    assert "/dev/kfd" not in ours | theirs


def test_a_slice_is_opened_by_its_own_capabilities(node: NodeFacts) -> None:
    own = ["/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67"]
    got = plan(node, 1072)
    assert [path for path in got if "caps" in path] == own
    assert [path for path in got if path.removeprefix("/dev/nvidia").isdigit()] == ["/dev/nvidia7"]


def test_where_nobody_knows_the_nodes_all_gpus_are_shown_and_nothing_else() -> None:
    unknown = Gpu(slot=0, index=0, kind=SlotKind.CUDA, uuid="0")
    got = device_plan([unknown], EXISTING)
    assert {f"/dev/nvidia{n}" for n in range(8)} <= set(got)
    assert not {"/dev/sda", "/dev/nvidia-caps/nvidia-cap1", "/dev/dri/card0"} & set(got)


def test_an_amd_gpu_has_its_node_and_the_drivers() -> None:
    assert device_plan([AMD], EXISTING) == ["/dev/dri/renderD129", "/dev/infiniband", "/dev/kfd"]


def test_a_task_joins_the_groups_that_may_open_its_devices(tmp_path: Path) -> None:
    modes = {"closed": 0o660, "open": 0o666, "owner": 0o600}
    for name, mode in modes.items():
        try:
            os.mknod(tmp_path / name, stat.S_IFCHR | mode, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes device nodes")
        (tmp_path / name).chmod(mode)
        os.chown(tmp_path / name, 0, 4109)
    assert device_groups([str(tmp_path / name) for name in ("open", "owner", "missing")]) == []
    assert device_groups([str(tmp_path / name) for name in modes]) == [4109]


def test_the_node_of_cuda_is_asked_for_where_a_driver_is(tmp_path: Path) -> None:
    assert load_driver(tmp_path) == ()
    (tmp_path / "nvidiactl").touch()
    (said,) = load_driver(tmp_path)
    assert "nvidia-uvm is missing, so CUDA cannot start" in said
    (tmp_path / "nvidia-uvm").touch()
    assert load_driver(tmp_path) == ()


class Smi:
    """The real program, as far as it tells what it was called with, behind ours."""

    def __init__(self, folder: Path, listed: str = "") -> None:
        self._ours, self._real = folder / "ours", folder / "with space"
        self._ours.mkdir()
        self._real.mkdir()
        real = self._real / "nvidia-smi"
        says = f"cat <<'.'\n{listed}\n." if listed else 'printf "%s|" "$@"; exit 3'
        real.write_text(f"#!/bin/sh\n{says}\n")
        real.chmod(0o755)

    def give(self, node: NodeFacts, *own: Gpu) -> None:
        write_gpu_tools(self._ours, node.gpus, own)

    def call(self, *words: str) -> tuple[int, str]:
        path = f"{self._ours}:{self._real}:/usr/bin:/bin"
        environ = {"PATH": path, "gpus": "x", "real": "y"}
        done = subprocess.run(
            ["nvidia-smi", *words], env=environ, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    ("words", "passed_on"),
    [
        ((), "-i|GPU-1aaa,GPU-7aaa|"),
        (
            ("--query-gpu=index,uuid", "--format=csv"),
            "-i|GPU-1aaa,GPU-7aaa|--query-gpu=index,uuid|--format=csv|",
        ),
        (("-q", "-i", "0"), "-q|-i|0|"),
        (("--id=0",), "--id=0|"),
        (("topo", "-m"), "topo|-m|"),
        (("--help-query-gpu",), "--help-query-gpu|"),
    ],
)
def test_nvidia_smi_shows_the_gpus_of_the_task(
    node: NodeFacts, tmp_path: Path, words: tuple[str, ...], passed_on: str
) -> None:
    smi = Smi(tmp_path)
    smi.give(node, node.gpus[1], node.gpus[7], node.gpus[8])
    assert smi.call(*words) == (3, passed_on)


def test_the_list_of_gpus_has_those_of_the_task(node: NodeFacts, tmp_path: Path) -> None:
    """Driver 580: `nvidia-smi -L` takes no -i."""
    smi = Smi(tmp_path, LISTED)
    smi.give(node, node.gpus[1], node.gpus[7])
    assert smi.call("-L") == (0, LISTED_TO_TASK)


def test_a_task_without_slots_is_told_that_there_are_no_gpus(
    node: NodeFacts, tmp_path: Path
) -> None:
    smi = Smi(tmp_path)
    smi.give(node)
    assert smi.call("-L") == (6, "No devices were found")
    assert smi.call("-i", "0") == (6, "No devices were found")


def test_machines_without_nvidia_gpus_need_no_wrapper(tmp_path: Path) -> None:
    write_gpu_tools(tmp_path, [AMD], [AMD])
    assert list(tmp_path.iterdir()) == []
