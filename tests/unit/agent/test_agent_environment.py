"""What a task finds in its environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import ContainerPaths, NodeFacts, task_environment
from agent_bootstrap.agent.gpus.gpu import Gpu
from agent_bootstrap.protocol import Bind, ContainerSpec, Slot, SlotKind

PLACE = ContainerDir(Path("/agent/containers/c"))
ARTIFICIAL = tuple(Slot(id=i, kind=SlotKind.ARTIFICIAL) for i in range(2))
CUDA = tuple(Gpu(slot=i, index=i, kind=SlotKind.CUDA, uuid=f"GPU-{i}") for i in range(4))
ROCM = tuple(
    Gpu(slot=i, index=i, kind=SlotKind.ROCM, uuid=uuid, nodes=(f"/dev/dri/renderD{i}",))
    for i, uuid in enumerate(("GPU-00a", "GPU-00b", "PCI-c"))
)


def build(
    *,
    private_root: bool = True,
    slots: tuple[Slot, ...] = ARTIFICIAL,
    gpus: tuple[Gpu, ...] = (),
    slot_ids: tuple[int, ...] = (),
    environment: dict[str, str] | None = None,
    proxies: tuple[tuple[str, str], ...] = (),
) -> dict[str, str]:
    spec = ContainerSpec(
        container_id="c",
        allocation_id="t.1",
        task_id="t",
        task_type="TRIAL",
        slot_ids=slot_ids,
        entrypoint=("true",),
        environment=environment or {},
        binds=(Bind(source="/data", target="/determined_shared_fs"),),
    )
    node = NodeFacts(
        master_url="http://10.0.0.1:8080",
        agent_id="n1",
        cluster_id="cl",
        master_id="ma",
        slots=tuple(Slot(id=g.slot, kind=g.kind) for g in gpus) or slots,
        gpus=gpus,
        instance_id="i-1",
        proxies=proxies,
    )
    return task_environment(spec, node, ContainerPaths(PLACE, private_root))


def test_the_agents_own_environment_does_not_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert "AWS_SECRET_ACCESS_KEY" not in build()


def test_facts_cannot_be_overridden_but_defaults_can() -> None:
    found = build(environment={"DET_AGENT_ID": "liar", "HOME": "/h", "PATH": "/p", "LANG": "de"})
    assert (found["DET_AGENT_ID"], found["HOME"], found["PATH"], found["LANG"]) == (
        "n1",
        "/h",
        "/p",
        "de",
    )
    assert (found["DET_MASTER_ADDR"], found["DET_MASTER_PORT"]) == ("10.0.0.1", "8080")
    assert found["WINDLASS_INSTANCE_ID"] == "i-1"


def test_the_agents_interpreter_is_first_on_the_path() -> None:
    ours, python, *_ = build()["PATH"].split(":")
    assert (ours, python) == ("/run/determined/bin", str(Path(sys.executable).parent))


@pytest.mark.parametrize(
    ("slot_ids", "shown", "cuda", "nvidia"),
    [((), "[]", "", "void"), ((1, 3), "[1, 3]", "GPU-1,GPU-3", "GPU-1,GPU-3")],
)
def test_a_task_sees_only_its_gpus(
    slot_ids: tuple[int, ...], shown: str, cuda: str, nvidia: str
) -> None:
    found = build(gpus=CUDA, slot_ids=slot_ids, environment={"CUDA_VISIBLE_DEVICES": "0"})
    assert (found["DET_SLOT_IDS"], found["CUDA_VISIBLE_DEVICES"]) == (shown, cuda)
    assert found["NVIDIA_VISIBLE_DEVICES"] == nvidia
    assert not {"OMP_NUM_THREADS", "ROCR_VISIBLE_DEVICES"} & found.keys()


@pytest.mark.parametrize(
    ("slot_ids", "contained", "devices"),
    [
        ((), True, ""),
        ((0, 1), True, "GPU-00a,GPU-00b"),
        ((1, 2), True, "0,1"),
        ((1, 2), False, "1,2"),
    ],
)
def test_amd_gpus_are_named_by_uuid_where_they_have_one(
    slot_ids: tuple[int, ...], contained: bool, devices: str
) -> None:
    found = build(gpus=ROCM, slot_ids=slot_ids, private_root=contained)
    assert found["ROCR_VISIBLE_DEVICES"] == devices
    # HIP takes it for its own, and counts from what ROCr left.
    assert "CUDA_VISIBLE_DEVICES" not in found


def test_a_machine_that_offers_no_gpu_shows_none() -> None:
    assert build()["CUDA_VISIBLE_DEVICES"] == ""
    assert build(environment={"CUDA_VISIBLE_DEVICES": "0"})["CUDA_VISIBLE_DEVICES"] == "0"


def test_fractions_of_a_machine_use_one_thread_each() -> None:
    assert build()["OMP_NUM_THREADS"] == "1"
    assert build(environment={"OMP_NUM_THREADS": "4"})["OMP_NUM_THREADS"] == "4"


def test_without_a_private_root_paths_are_the_real_ones() -> None:
    given = {"PYTHONUSERBASE": "/run/determined/pythonuserbase", "X": "/run/determinedly"}
    found = build(private_root=False, environment=given)
    assert found["DET_RUN_DIR"] == "/agent/containers/c/rundet"
    assert found["DET_WORKDIR"] == found["HOME"] == "/agent/containers/c/rundet/workdir"
    assert found["PYTHONUSERBASE"] == "/agent/containers/c/rundet/pythonuserbase"
    assert (found["X"], found["TMPDIR"]) == ("/run/determinedly", "/agent/containers/c/tmp")
    assert found["WINDLASS_SHARED_FS"] == "/data"
    assert "WINDLASS_SHARED_FS" not in build()


def test_proxies_are_given_unless_the_task_has_its_own() -> None:
    proxies = (("HTTP_PROXY", "p"), ("NO_PROXY", "n"))
    found = build(environment={"http_proxy": "mine"}, proxies=proxies)
    assert "HTTP_PROXY" not in found
    assert found["NO_PROXY"] == "n"
