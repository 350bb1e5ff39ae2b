"""What an engine is asked to create for a task. Pure, but for the limits of this process."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.cgroups import MAX_PIDS
from agent_bootstrap.agent.runtimes.devices import device_groups, task_devices, task_gpus
from agent_bootstrap.agent.runtimes.engine.connection import Engine
from agent_bootstrap.agent.runtimes.image_task import ImageTask
from agent_bootstrap.agent.runtimes.mount_list import Mount
from agent_bootstrap.container_options import Device
from agent_bootstrap.privilege_rules import plain
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, SlotKind

LABEL = "io.windlass"
ROOTS_OWN = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "SYS_CHROOT")
"""What root of a rootless container keeps, for `apt-get install` and sshd: it counts among its own users only."""
LOOPBACK = ("localhost", "127.", "::1")
LOOPBACK_ADDRESS = "127.0.0.1"
LISTEN_ADDRESS = "WINDLASS_LISTEN_ADDRESS"
"""Tells services of a task where to listen. Without it: on the loopback, for it has the network of its machine."""
PERIOD_US = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """By which containers are found again, by us and by operators."""

    cluster: str
    agent: str

    def of(self, spec: ContainerSpec) -> dict[str, str]:
        return {
            **self.own,
            f"{LABEL}.cluster": self.cluster,
            f"{LABEL}.container": spec.container_id,
            f"{LABEL}.allocation": spec.allocation_id,
            f"{LABEL}.task": spec.task_id,
        }

    @property
    def own(self) -> dict[str, str]:
        """Of all containers of this agent."""
        return {f"{LABEL}.agent": self.agent}


def container_name(container_id: str) -> str:
    return f"windlass-{container_id}"


def creation(
    task: ImageTask,
    engine: Engine,
    node: NodeFacts,
    *,
    image_id: str,
    entrypoint: Sequence[str],
    labels: Mapping[str, str],
    ulimits: Mapping[str, int],
) -> dict[str, Any]:
    """The body of `POST /containers/create`. Raises StartRefused. `entrypoint`: the image's own."""
    options = task.spec.options
    network = network_mode(options.network, node.master_url)
    ports = {} if network == "host" else port_bindings(task.spec)
    amd = amd_devices(task.spec, node)
    variables = {**task.variables, **gpu_variables(task.spec, node)}
    if network != "host":
        variables[LISTEN_ADDRESS] = "0.0.0.0"  # noqa: S104  (its network is its own)
    return {
        "Image": image_id,
        "Entrypoint": [*task.entry, *entrypoint],
        "Cmd": [],
        "User": f"{task.who.uid}:{task.who.gid}",
        "Env": [f"{key}={value}" for key, value in sorted(variables.items())],
        "Labels": dict(labels),
        "Tty": False,
        "OpenStdin": False,
        "Healthcheck": {"Test": ["NONE"]},
        "ExposedPorts": {port: {} for port in ports},
        "HostConfig": {
            "NetworkMode": network,
            "PortBindings": ports,
            "Mounts": [_mount(mount) for mount in task.mounts if not _is_tmpfs(mount)],
            "Tmpfs": {mount.target: "ro,size=4k" for mount in task.mounts if _is_tmpfs(mount)},
            "LogConfig": {"Type": "none", "Config": {}},
            "ShmSize": options.shm_bytes or 0,
            "GroupAdd": [str(group) for group in (*task.groups, *device_groups(amd))],
            "Ulimits": [
                {"Name": name, "Soft": most, "Hard": most} for name, most in ulimits.items()
            ],
            "Devices": [
                {
                    "PathOnHost": device.host_path,
                    "PathInContainer": device.container_path,
                    "CgroupPermissions": device.mode,
                }
                for device in (*options.devices, *map(_whole, amd))
            ],
            "UsernsMode": "keep-id" if engine.rootless and task.who.uid != 0 else "",
            **security(task, engine),
            **limits(task.spec),
            **gpu_request(task.spec, node, engine),
        },
    }


def security(task: ImageTask, engine: Engine) -> dict[str, Any]:
    options = task.spec.options
    added = set(map(plain, options.add_capabilities))
    if engine.rootless and task.who.uid == 0:
        added |= set(ROOTS_OWN)
    added -= set(map(plain, options.drop_capabilities))
    # Files of the machine and of network storage have labels that no container may read.
    labels = ["label=disable"] if engine.selinux else []
    return {
        "CapDrop": ["ALL"],
        "CapAdd": sorted(added),
        "SecurityOpt": ["no-new-privileges", *labels],
        "Privileged": False,
    }


def own_limits() -> dict[str, int]:
    """A container has the agent's hard limits, and no core files. -1: none.

    Engines would take what the kernel has at most, which not every machine lets them have. Processes are counted by
    `PidsLimit`: a limit of the user would count all of its tasks as one.
    """
    pid_max = int(Path("/proc/sys/kernel/pid_max").read_text())
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Podman gives itself no more processes than there are numbers.
    return {
        "core": 0,
        "nofile": files,
        "nproc": pid_max if processes < 0 else min(processes, pid_max),
    }


def limits(spec: ContainerSpec) -> dict[str, Any]:
    wanted = spec.options.limits
    found: dict[str, Any] = {"PidsLimit": wanted.pids or MAX_PIDS}
    if wanted.memory_bytes is not None:
        # The same for both: no swap.
        found |= {"Memory": wanted.memory_bytes, "MemorySwap": wanted.memory_bytes}
    if wanted.cpus is not None:
        found |= {"CpuPeriod": PERIOD_US, "CpuQuota": int(wanted.cpus * PERIOD_US)}
    return found


def network_mode(wanted: str, master_url: str) -> str:
    """A master at this machine's loopback is reached from its network only."""
    host = urlsplit(master_url).hostname or ""
    if wanted == "bridge" and host.startswith(LOOPBACK):
        return "host"
    return wanted or "host"


def port_bindings(spec: ContainerSpec) -> dict[str, list[dict[str, str]]]:
    """What the proxy leads to is published to this machine alone, by which port is the engine's choice.

    What the user wants other machines to reach has its own number there.
    """
    options = spec.options
    proxied = [{"HostIp": LOOPBACK_ADDRESS, "HostPort": ""}]
    found = {port.port: proxied for port in options.ports}
    for port in options.published_ports.values():
        found[port] = [*found.get(port, []), {"HostPort": str(port)}]
    return {f"{port}/tcp": bindings for port, bindings in sorted(found.items())}


def published(inspected: Mapping[str, Any]) -> dict[int, int] | None:
    """Port of the container -> port of this machine's loopback. None: its network is the machine's."""
    if inspected["HostConfig"]["NetworkMode"] == "host":
        return None
    found = {}
    for name, bindings in (inspected["NetworkSettings"].get("Ports") or {}).items():
        for binding in bindings or ():
            if binding["HostIp"] == LOOPBACK_ADDRESS:
                found[int(name.removesuffix("/tcp"))] = int(binding["HostPort"])
    return found


def gpu_uuids(spec: ContainerSpec, node: NodeFacts) -> list[str]:
    return [s.uuid for s in node.slots if s.kind is SlotKind.CUDA and s.id in spec.slot_ids]


def gpu_variables(spec: ContainerSpec, node: NodeFacts) -> dict[str, str]:
    """An engine whose default runtime is NVIDIA's shows all GPUs to images that ask for them, unless it is told."""
    has_gpus = any(slot.kind is SlotKind.CUDA for slot in node.slots)
    return {"NVIDIA_VISIBLE_DEVICES": "void"} if has_gpus and not gpu_uuids(spec, node) else {}


def gpu_request(spec: ContainerSpec, node: NodeFacts, engine: Engine) -> dict[str, Any]:
    """The GPUs of its slots, by UUID. image_task.py looks, inside, whether it got those and only those."""
    uuids = gpu_uuids(spec, node)
    if not uuids:
        return {}
    if not engine.takes_device_requests:
        raise StartRefused(
            ExitFailure.TASK_ERROR,
            f"{engine.shown} cannot give GPUs to containers by its socket: install Podman 5.4 or newer, "
            "or set another container_runtime in agent.yaml",
        )
    if engine.kind == "podman" or "nvidia" not in engine.runtimes:
        names = [f"nvidia.com/gpu={uuid}" for uuid in uuids]
        return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": names}]}
    capabilities = [["gpu", "compute", "utility"]]
    request = {"Driver": "nvidia", "DeviceIDs": uuids, "Capabilities": capabilities}
    return {"DeviceRequests": [request]}


def amd_devices(spec: ContainerSpec, node: NodeFacts) -> list[str]:
    """ROCm needs no more than the device nodes of its GPUs."""
    return task_devices([gpu for gpu in task_gpus(spec, node) if gpu.kind is SlotKind.ROCM])


def _whole(path: str) -> Device:
    return Device(host_path=path, container_path=path, mode="rw")


def _is_tmpfs(mount: Mount) -> bool:
    return mount.kind == "hide" and mount.source == "folder"


def _mount(mount: Mount) -> dict[str, Any]:
    hides = mount.kind == "hide"
    return {
        "Type": "bind",
        "Source": "/dev/null" if hides else mount.source,
        "Target": mount.target,
        "ReadOnly": mount.read_only or hides,
        "BindOptions": {"Propagation": "rprivate"},
    }
