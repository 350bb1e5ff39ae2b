"""What an engine is asked for, and what is found behind a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.engine.connection import (
    Engine,
    candidates,
    find_engine,
    identity_inside,
)
from agent_bootstrap.agent.runtimes.engine.creation import (
    Labels,
    creation,
    network_mode,
    published,
)
from agent_bootstrap.agent.runtimes.image_task import ImageTask
from agent_bootstrap.agent.runtimes.mount_list import Mount
from agent_bootstrap.container_options import ContainerOptions, OsUser
from agent_bootstrap.protocol import ContainerSpec, Slot, SlotKind
from windlass.base.errors import InvalidConfig

DOCKER = Engine(
    kind="docker",
    version="27.3.1",
    api_version="1.47",
    socket="/s",
    runtimes=frozenset({"runc", "nvidia"}),
)
PODMAN = Engine(kind="podman", version="5.4.0", api_version="1.41", socket="/s")
OLD_PODMAN = Engine(kind="podman", version="4.3.1", api_version="1.41", socket="/s")
ROOTLESS = Engine(
    kind="podman", version="5.4.0", api_version="1.41", socket="/s", rootless=True, selinux=True
)
ANN = OsUser(uid=1000, gid=100, user="ann", group="users")
ROOT = OsUser()
GPUS = tuple(Slot(id=i, kind=SlotKind.CUDA, uuid=f"GPU-{i}") for i in range(4))
NODE = NodeFacts(master_url="http://m:1", agent_id="a", cluster_id="c", master_id="m", slots=GPUS)


def body(
    engine: Engine = DOCKER,
    *,
    who: OsUser = ANN,
    slots: tuple[int, ...] = (),
    node: NodeFacts = NODE,
    mounts: tuple[Mount, ...] = (),
    **options: Any,
) -> dict[str, Any]:
    spec = ContainerSpec(
        container_id="c1",
        allocation_id="t.1",
        task_id="t",
        task_type="TRIAL",
        slot_ids=slots,
        entrypoint=("true",),
        environment={"SECRET": "s3cret"},
        options=ContainerOptions(image="i", **options),
    )
    task = ImageTask(
        image="i",
        spec=spec,
        who=who,
        groups=(44,),
        mounts=mounts,
        entry=("/bin/sh", "/entry"),
        variables={"DET_CONTAINER_ID": "c1"},
        work_dir="/w",
        home="/w",
    )
    labels = Labels(cluster="c", agent="a").of(spec)
    return creation(
        task,
        engine,
        node,
        image_id="sha256:1",
        entrypoint=("/nvidia.sh",),
        labels=labels,
        ulimits={"core": 0},
    )


def test_a_container_has_its_users_number_and_no_rights() -> None:
    made = body()
    host = made["HostConfig"]
    assert made["User"] == "1000:100"
    assert host["GroupAdd"] == ["44"]
    assert (host["CapDrop"], host["CapAdd"], host["Privileged"]) == (["ALL"], [], False)
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert "s3cret" not in str(made)
    assert made["Entrypoint"] == ["/bin/sh", "/entry", "/nvidia.sh"]


def test_what_is_allowed_is_added_and_dropping_wins() -> None:
    made = body(add_capabilities=("CAP_SYS_PTRACE", "ipc_lock"), drop_capabilities=("IPC_LOCK",))
    assert made["HostConfig"]["CapAdd"] == ["SYS_PTRACE"]


def test_root_of_a_rootless_engine_keeps_what_counts_inside_only() -> None:
    host = body(ROOTLESS, who=ROOT)["HostConfig"]
    assert "CHOWN" in host["CapAdd"]
    assert not {"SYS_ADMIN", "NET_ADMIN", "MKNOD"} & set(host["CapAdd"])
    assert host["UsernsMode"] == ""
    assert host["SecurityOpt"] == ["no-new-privileges", "label=disable"]
    assert body(DOCKER, who=ROOT)["HostConfig"]["CapAdd"] == []


def test_who_is_inside_a_rootless_engine() -> None:
    assert body(ROOTLESS)["HostConfig"]["UsernsMode"] == "keep-id"
    assert identity_inside(ROOTLESS, ANN) == ANN
    docker = Engine(kind="docker", version="27", api_version="1", socket="/s", rootless=True)
    assert identity_inside(docker, ANN) == ROOT
    assert identity_inside(DOCKER, ANN) == ANN


def test_limits_are_given_without_swap() -> None:
    host = body(limits={"cpus": 1.5, "memory_bytes": 2**30, "pids": 100})["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (2**30, 2**30)
    assert (host["CpuQuota"], host["CpuPeriod"]) == (150_000, 100_000)
    assert host["PidsLimit"] == 100
    assert "Memory" not in body()["HostConfig"]
    assert body(shm_bytes=5)["HostConfig"]["ShmSize"] == 5


@pytest.mark.parametrize(
    ("wanted", "master", "found"),
    [
        ("bridge", "http://10.0.0.1:8080", "bridge"),
        ("bridge", "http://127.0.0.1:8080", "host"),
        ("bridge", "http://[::1]:8080", "host"),
        ("lab", "http://localhost:8080", "lab"),
        ("", "http://m:1", "host"),
    ],
)
def test_a_master_on_the_loopback_is_reached_by_the_machines_network(
    wanted: str, master: str, found: str
) -> None:
    assert network_mode(wanted, master) == found


def test_ports_are_published_where_the_network_is_the_containers_own() -> None:
    """What the proxy leads to: to the machine alone, and by any port of it."""
    options: dict[str, Any] = {"ports": ({"port": 2601},), "published_ports": {"trial": 1734}}
    made = body(network="bridge", **options)
    assert made["HostConfig"]["PortBindings"] == {
        "1734/tcp": [{"HostPort": "1734"}],
        "2601/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}],
    }
    assert list(made["ExposedPorts"]) == ["1734/tcp", "2601/tcp"]
    assert "WINDLASS_LISTEN_ADDRESS=0.0.0.0" in made["Env"]
    shared = body(network="host", **options)
    assert shared["HostConfig"]["PortBindings"] == {}
    assert "LISTEN_ADDRESS" not in str(shared), "on the loopback: others share the network"


@pytest.mark.parametrize(
    ("network", "ports", "found"),
    [
        ("host", {}, None),
        ("bridge", None, {}),
        (
            "bridge",
            {
                "2601/tcp": [{"HostIp": "127.0.0.1", "HostPort": "40001"}],
                "1734/tcp": [{"HostIp": "0.0.0.0", "HostPort": "1734"}],  # noqa: S104
                "53/udp": None,
            },
            {2601: 40001},
        ),
    ],
)
def test_where_the_engine_put_ports(
    network: str, ports: dict[str, Any] | None, found: dict[int, int] | None
) -> None:
    told = {"HostConfig": {"NetworkMode": network}, "NetworkSettings": {"Ports": ports}}
    assert published(told) == found


def test_gpus_are_named_by_uuid_as_each_engine_takes_them() -> None:
    assert body(slots=(1, 3))["HostConfig"]["DeviceRequests"] == [
        {
            "Driver": "nvidia",
            "DeviceIDs": ["GPU-1", "GPU-3"],
            "Capabilities": [["gpu", "compute", "utility"]],
        }
    ]
    cdi = [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1"]}]
    assert body(PODMAN, slots=(1,))["HostConfig"]["DeviceRequests"] == cdi
    with pytest.raises(StartRefused, match=r"podman 4\.3\.1 cannot give GPUs .* Podman 5\.4"):
        body(OLD_PODMAN, slots=(1,))


def test_a_task_without_gpus_is_shown_none_though_the_engine_would() -> None:
    made = body()
    assert "DeviceRequests" not in made["HostConfig"]
    assert "NVIDIA_VISIBLE_DEVICES=void" in made["Env"]
    bare = NodeFacts(master_url="http://m:1", agent_id="a", cluster_id="c", master_id="m")
    assert body(node=bare)["Env"] == ["DET_CONTAINER_ID=c1"]


def test_hidden_folders_are_covered_and_hidden_files_are_empty() -> None:
    mounts = (
        Mount(kind="bind", source="/data", target="/d", read_only=True),
        Mount(kind="hide", source="folder", target="/d/secret"),
        Mount(kind="hide", source="file", target="/d/token"),
    )
    host = body(mounts=mounts)["HostConfig"]
    assert list(host["Tmpfs"]) == ["/d/secret"]
    sources = {mount["Target"]: (mount["Source"], mount["ReadOnly"]) for mount in host["Mounts"]}
    assert sources == {"/d": ("/data", True), "/d/token": ("/dev/null", True)}


def test_sockets_are_looked_for_where_they_are() -> None:
    assert candidates("docker", {}, 0) == ["/var/run/docker.sock", "/run/user/0/docker.sock"]
    told = {"DOCKER_HOST": "unix:///x.sock", "XDG_RUNTIME_DIR": "/r"}
    assert candidates("docker", told, 1000) == [
        "/x.sock",
        "/r/docker.sock",
        "/var/run/docker.sock",
    ]
    assert candidates("podman", {"CONTAINER_HOST": "ssh://elsewhere"}, 0)[0] == (
        "/run/podman/podman.sock"
    )


def test_an_engine_that_is_not_there_is_told_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidConfig, match=r"podman does not answer .*nothing\.sock: is not there"
    ):
        find_engine("podman", str(tmp_path / "nothing.sock"))
