"""The environment of a task: what its spec says, plus what depends on where it runs. The agent's own does not leak."""

from __future__ import annotations

import json
import os
import posixpath
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agent_bootstrap.agent.batch.node import inherited
from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.gpus.gpu import Gpu
from agent_bootstrap.protocol import ContainerSpec, Slot, SlotKind
from windlass.base.tls.trust import NO_VERIFY

RUN_DIR = "/run/determined"
TOOLS_DIR = f"{RUN_DIR}/bin"
"""Programs of ours, first in PATH."""
PACKAGES_DIR = f"{RUN_DIR}/packages"
"""Holds `windlass` for a Python that is not the agent's."""
TMP_DIR = "/tmp"  # noqa: S108  (private to the task)
USER_BASE = f"{RUN_DIR}/pythonuserbase"
CERTIFICATES = f"{RUN_DIR}/etc/ssl/master.crt"
SHARED_FS = "/determined_shared_fs"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What tasks are told of the machine and the cluster."""

    master_url: str
    agent_id: str
    cluster_id: str
    master_id: str
    slots: tuple[Slot, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    """Those of the slots, with what a machine knows of them besides."""
    instance_id: str | None = None
    proxies: tuple[tuple[str, str], ...] = ()
    """HTTP_PROXY and friends, unless a task sets them."""
    job: Mapping[str, str] = field(default_factory=dict)
    """What a batch system says of the job around the agent, unless a task says otherwise."""
    inherits: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the machine that a task has if it names them without a value."""
    scratch: Path | None = None
    """Where /tmp of tasks is made. None: in their own directories."""
    certificates: str = ""
    """PEM: what tasks trust besides public authorities when they call the master. `noverify`: anybody."""
    certificate_name: str = ""
    """The name in the master's certificate, where it is not the host of the URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python that somebody chose for a task."""

    program: str
    """Its path, or a name that a prologue puts on PATH."""
    folders: tuple[str, ...] = ()
    """To be seen besides the system."""
    version: str = ""
    """Of a virtualenv, as `3.11`: it has no packages of its user."""

    @property
    def bin(self) -> str:
        """Where its own programs are."""
        return posixpath.dirname(self.program)


def search_path() -> str:
    """The PATH of tasks, without the folder of the agent's own Python."""
    own = (str(Path(sys.executable).parent), f"{sys.prefix}/bin")
    system = DEFAULT_PATH.split(":")
    given = (os.environ.get("PATH") or DEFAULT_PATH).split(":")
    return ":".join(path for path in given if path in system or path not in own)


@dataclass(frozen=True, slots=True)
class ContainerPaths:
    """Where the paths of a container really are. With a private root they are what they say."""

    place: ContainerDir
    private_root: bool

    def on_host(self, path: str) -> Path | None:
        """The host's path of something in the container's own tree. None: it is outside of that."""
        path = posixpath.normpath(path)
        for prefix, source in ((RUN_DIR, self.place.rundet), (TMP_DIR, self.place.tmp)):
            if path == prefix or path.startswith(prefix + "/"):
                return source / path[len(prefix) + 1 :]
        return None

    def seen_by_task(self, path: str) -> str:
        """How the task must spell a path of its container."""
        real = None if self.private_root else self.on_host(path)
        return path if real is None else str(real)

    def translate(self, value: str) -> str:
        """A value that is a path below /run/determined, in the task's own spelling."""
        is_own = value == RUN_DIR or value.startswith(RUN_DIR + "/")
        return self.seen_by_task(value) if is_own else value


def task_environment(
    spec: ContainerSpec, node: NodeFacts, layout: ContainerPaths, chosen: Interpreter | None = None
) -> dict[str, str]:
    """The whole environment of the task's first process. `chosen` None: the agent's own Python."""
    given = {key: layout.translate(value) for key, value in _given(spec, node).items()}
    environment = {
        **_defaults(spec, node, layout),
        **(_agents_python(layout) if chosen is None else _chosen_python(layout, chosen)),
        **given,
        **_facts(spec, node),
        **_tls(node, layout),
    }
    if chosen is not None:
        searched = (environment.get("PYTHONPATH", ""), layout.seen_by_task(PACKAGES_DIR))
        environment["PYTHONPATH"] = ":".join(filter(None, searched))
    environment.update(device_variables(spec, node, layout))
    if not layout.private_root:
        environment["DET_RUN_DIR"] = layout.seen_by_task(RUN_DIR)
        environment["DET_WORKDIR"] = layout.seen_by_task(spec.work_dir)
        shared = next((bind.source for bind in spec.binds if bind.target == SHARED_FS), None)
        if shared is not None:
            environment["WINDLASS_SHARED_FS"] = shared
    return environment | _proxies(given, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageEnvironment:
    """What is laid around the variables of an image."""

    below: dict[str, str]
    """Unless the image sets them."""
    above: dict[str, str]


def image_environment(spec: ContainerSpec, node: NodeFacts, home: str) -> ImageEnvironment:
    """For a task in an image: PATH and the interpreter's own variables are the image's."""
    below = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", **_thread_limits(node)}
    own = {
        "HOME": home,
        "TMPDIR": TMP_DIR,
        "DET_RUN_DIR": RUN_DIR,
        "DET_WORKDIR": spec.work_dir,
        "PYTHONUSERBASE": USER_BASE,
    }
    above = {
        **own,
        **_given(spec, node),
        **_facts(spec, node),
        **_tls(node, ContainerPaths(ContainerDir(Path("/")), private_root=True)),
        **_proxies(spec.environment, node),
    }
    return ImageEnvironment(below=below, above=above)


def _given(spec: ContainerSpec, node: NodeFacts) -> dict[str, str]:
    return {**node.job, **spec.environment, **inherited(spec.environment, node.inherits)}


def _proxies(given: Mapping[str, str], node: NodeFacts) -> dict[str, str]:
    taken = {key.lower() for key in given}
    return {key: value for key, value in node.proxies if key.lower() not in taken}


def _defaults(spec: ContainerSpec, node: NodeFacts, layout: ContainerPaths) -> dict[str, str]:
    """What the spec may say otherwise."""
    values = {
        "HOME": layout.seen_by_task(spec.work_dir),
        "TMPDIR": layout.seen_by_task(TMP_DIR),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "DET_RUN_DIR": layout.seen_by_task(RUN_DIR),
        "DET_WORKDIR": layout.seen_by_task(spec.work_dir),
    }
    if not node.gpus:
        values["CUDA_VISIBLE_DEVICES"] = ""
    return values | _thread_limits(node)


def _thread_limits(node: NodeFacts) -> dict[str, str]:
    if {slot.kind for slot in node.slots} != {SlotKind.ARTIFICIAL}:
        return {}
    # Several tasks share the processors: each with a thread per processor is slower than all with one.
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _agents_python(layout: ContainerPaths) -> dict[str, str]:
    own_bin = str(Path(sys.executable).parent)
    search = os.environ.get("PATH") or DEFAULT_PATH
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = _own_packages("" if sys.prefix == sys.base_prefix else version)
    path = f"{layout.seen_by_task(TOOLS_DIR)}:{own_bin}:{search}"
    return {"PATH": path, **(own if layout.private_root else {})}


def _chosen_python(layout: ContainerPaths, chosen: Interpreter) -> dict[str, str]:
    folders = (layout.seen_by_task(TOOLS_DIR), chosen.bin, search_path())
    return {
        "PATH": ":".join(filter(None, folders)),
        "DET_PYTHON_EXECUTABLE": chosen.program,
        **(_own_packages(chosen.version) if layout.private_root else {}),
    }


def _own_packages(version: str) -> dict[str, str]:
    """Where `pip install` in a task puts packages: the interpreter's own folders are read-only there.

    `version`: of a virtualenv, which has no packages of its user.
    """
    if not version:
        return {"PYTHONUSERBASE": USER_BASE}
    folder = f"{USER_BASE}/lib/python{version}/site-packages"
    return {"PYTHONUSERBASE": USER_BASE, "PIP_TARGET": folder, "PYTHONPATH": folder}


def _facts(spec: ContainerSpec, node: NodeFacts) -> dict[str, str]:
    """What nobody may say otherwise."""
    master = urlsplit(node.master_url)
    values = {
        "DET_MASTER": node.master_url,
        "DET_MASTER_HOST": master.hostname or "",
        "DET_MASTER_ADDR": master.hostname or "",
        "DET_MASTER_PORT": str(master.port or (443 if master.scheme == "https" else 80)),
        "DET_AGENT_ID": node.agent_id,
        "DET_CONTAINER_ID": spec.container_id,
        "DET_RESOURCES_ID": spec.container_id,
        "DET_SLOT_IDS": json.dumps(list(spec.slot_ids)),
        "DET_CLUSTER_ID": node.cluster_id,
        "DET_MASTER_ID": node.master_id,
    }
    if node.instance_id is not None:
        values["WINDLASS_INSTANCE_ID"] = node.instance_id
    return values


def _tls(node: NodeFacts, layout: ContainerPaths) -> Mapping[str, str]:
    """What both harnesses check the master's certificate by."""
    if not node.master_url.startswith("https:"):
        return {"DET_USE_TLS": "false"}
    values = {"DET_USE_TLS": "true", "DET_MASTER_CERT_NAME": node.certificate_name}
    if node.certificates == NO_VERIFY:
        values["DET_MASTER_CERT_FILE"] = NO_VERIFY
    elif node.certificates:
        values["DET_MASTER_CERT_FILE"] = layout.seen_by_task(CERTIFICATES)
    return {key: value for key, value in values.items() if value}


def device_variables(
    spec: ContainerSpec, node: NodeFacts, layout: ContainerPaths
) -> Mapping[str, str]:
    """On machines with GPUs a task sees those of its slots, and none if it has none."""
    gpus = [gpu for gpu in node.gpus if gpu.slot in spec.slot_ids]
    kinds = {gpu.kind for gpu in node.gpus}
    variables: dict[str, str] = {}
    if SlotKind.CUDA in kinds:
        uuids = ",".join(gpu.uuid for gpu in gpus)
        # The second one is for container engines that a task starts; there "" means all.
        variables |= {"CUDA_VISIBLE_DEVICES": uuids, "NVIDIA_VISIBLE_DEVICES": uuids or "void"}
    if SlotKind.ROCM in kinds:
        variables["ROCR_VISIBLE_DEVICES"] = ",".join(_rocm_names(gpus, hidden=layout.private_root))
    return variables


def _rocm_names(gpus: Sequence[Gpu], *, hidden: bool) -> list[str]:
    """By UUID. A list of indices where one has none: ROCr counts only GPUs whose nodes are there, `hidden` or not."""
    if all(gpu.uuid.startswith("GPU-") for gpu in gpus):
        return [gpu.uuid for gpu in gpus]
    is_ours_alone = hidden and all(gpu.nodes is not None for gpu in gpus)
    return [str(n if is_ours_alone else gpu.index) for n, gpu in enumerate(gpus)]
