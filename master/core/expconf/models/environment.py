"""Where a task runs: image, variables, mounts, devices, ports. Shared by experiments and `task_container_defaults`."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from master.core.expconf.models.schema import (
    FreeMap,
    Integer,
    Item,
    Items,
    NonNegative,
    Number,
    Port,
    Positive,
    Section,
)
from windlass.base.formats.python_name import python_name
from windlass.base.no_effect import NoEffect

CONTAINERS = "containers"
IN_CONTAINERS = NoEffect(
    "the agents of the pool run tasks as processes, with a Python of their machine; "
    "see container_runtime of agent.yaml",
    unless=CONTAINERS,
)
PROCESSES = "processes"
IN_PROCESSES = NoEffect(
    "the task runs in an image, which has its own Python: install there what it needs, or name no image",
    unless=PROCESSES,
)
SHM_SIZES = "shm sizes"
IN_SIZED_SHM = NoEffect(
    "Apptainer, Singularity and Enroot choose the size of /dev/shm; Podman and Docker give what is asked for",
    unless=SHM_SIZES,
)
PRIVATE = NoEffect("mounts are always private")
NO_KUBERNETES = NoEffect("there is no Kubernetes resource manager yet")

CPU_IMAGE = CUDA_IMAGE = "determinedai/pytorch-ngc-dev:0736b6d"
ROCM_IMAGE = "determinedai/environments:rocm-5.6-pytorch-1.3-tf-2.10-rocm-mpich-0736b6d"


class Image(Section):
    """The container image by the kind of slot the task gets."""

    cpu: str = CPU_IMAGE
    """Of tasks without GPUs."""
    cuda: str = CUDA_IMAGE
    """Of tasks with NVIDIA GPUs."""
    rocm: str = ROCM_IMAGE
    """Of tasks with AMD GPUs."""


class EnvironmentVariables(Section):
    """`NAME=VALUE` lines by the kind of slot; a later line of the same name wins."""

    cpu: Items[str] = ()
    """Of tasks without GPUs."""
    cuda: Items[str] = ()
    """Of tasks with NVIDIA GPUs."""
    rocm: Items[str] = ()
    """Of tasks with AMD GPUs."""


class RegistryAuth(Section):
    """Credentials of an image registry. Taken whole from one document, never mixed."""

    username: str | None = None
    """Who logs in."""
    password: str | None = Field(default=None, repr=False)
    """Of that user."""
    auth: str | None = Field(default=None, repr=False)
    """User and password in base64, instead of both."""
    email: Annotated[str | None, NoEffect("registries do not ask for it any more")] = None
    """Of that user."""
    serveraddress: str | None = None
    """The registry; `server` is read as the same."""
    identitytoken: str | None = Field(default=None, repr=False)
    """Instead of a password."""
    registrytoken: str | None = Field(default=None, repr=False)
    """Instead of a password."""


class ProxyPort(Item):
    """A port of the task that the master's proxy reaches."""

    proxy_port: Port
    """The port in the task."""
    proxy_tcp: bool = False
    """Plain TCP instead of HTTP."""
    unauthenticated: bool = False
    """Without a login."""
    default_service_id: bool = False
    """Reachable by the task's id alone, without the port."""


class Environment(Section):
    """Where a task runs."""

    image: Annotated[Image, IN_CONTAINERS] = Image()
    """The container image: one name, or one by the kind of slot (`gpu` is read as `cuda`)."""
    environment_variables: EnvironmentVariables = EnvironmentVariables()
    """`NAME=VALUE` lines: one list, or one by the kind of slot."""
    force_pull_image: Annotated[bool, IN_CONTAINERS] = False
    """Pull the image even if the machine has it."""
    registry_auth: Annotated[RegistryAuth | None, IN_CONTAINERS] = None
    """Credentials of the image's registry."""
    add_capabilities: Annotated[Items[str], IN_CONTAINERS] = ()
    """Linux capabilities that the container gets."""
    drop_capabilities: Annotated[Items[str], IN_CONTAINERS] = ()
    """Linux capabilities that the container loses."""
    ports: dict[str, Integer] = Field(default_factory=dict)
    """Ports of the task by name, published on the machine. The proxy reaches `proxy_ports` only."""
    proxy_ports: Items[ProxyPort] = ()
    """Ports of the task that the master's proxy reaches."""
    python: Annotated[Annotated[str, AfterValidator(python_name)] | None, IN_PROCESSES] = None
    """The Python of a process: the path of an interpreter or of a virtualenv on the agent's machine, or a name such as
    `python3.12`. None: agent.yaml's, else the agent's own."""
    prologue: Annotated[Items[str], IN_PROCESSES] = ()
    """Lines of shell before a process, such as `module load cuda`, after those of the cluster and of the agent."""
    pod_spec: Annotated[FreeMap | None, NO_KUBERNETES] = None
    """A Kubernetes pod, not looked into here."""


def _absolute(value: str) -> str:
    if not PurePosixPath(value).is_absolute():
        raise ValueError("host_path must be an absolute path")
    return value


def _not_dot(value: str) -> str:
    if value == ".":
        raise ValueError('container_path must not be "."')
    return value


class BindMount(Item):
    """A host directory in the task. A relative container path is below the work directory."""

    host_path: Annotated[str, AfterValidator(_absolute)]
    """Absolute, on the agent's machine."""
    container_path: Annotated[str, AfterValidator(_not_dot)]
    """Where the task sees it."""
    read_only: bool = False
    """The task may not write there."""
    propagation: Annotated[str, PRIVATE] = "rprivate"
    """Whether later mounts below it are seen on the other side."""


class Device(Item):
    """A device file; `host:container[:mode]` is read as the same."""

    host_path: str
    """On the agent's machine."""
    container_path: str
    """Where the task sees it."""
    mode: str = "mrw"
    """m: make, r: read, w: write."""

    @model_validator(mode="before")
    @classmethod
    def _only_valid_strings_were_split(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(f'invalid device string "{value}": write "host:container[:mode]"')
        return value


def _memory(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f'"{value}" is not a size such as "64GiB"')
    return value


class TaskLimits(Section):
    """What each container of a task may use at most. None: no limit of its own."""

    cpus: Annotated[Number, Field(gt=0)] | None = None
    """Processors, in parts too: 1.5."""
    memory: Annotated[Positive, BeforeValidator(_memory)] | None = None
    """Bytes, or a size such as "64GiB". A task that needs more is killed."""
    pids: Positive | None = None
    """Processes and threads."""


def _shm_size(value: Any) -> Any:
    """Strings that could be read have become bytes before (see `normalise`)."""
    if isinstance(value, str):
        raise ValueError(f'failed to parse shm_size: "{value}" is not a size such as "64MiB"')
    return value


ShmSize = Annotated[NonNegative, BeforeValidator(_shm_size)]
"""Bytes."""
