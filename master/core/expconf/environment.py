"""Where a task runs: image, variables, mounts, devices, ports. Shared by experiments and `task_container_defaults`."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from master.core.expconf.schema import FreeMap, Integer, Item, Items, NonNegative, Port, Section

CPU_IMAGE = CUDA_IMAGE = "determinedai/pytorch-ngc-dev:0736b6d"
ROCM_IMAGE = "determinedai/environments:rocm-5.6-pytorch-1.3-tf-2.10-rocm-mpich-0736b6d"


class Image(Section):
    """The container image by the kind of slot the task gets."""

    cpu: str = CPU_IMAGE
    cuda: str = CUDA_IMAGE
    rocm: str = ROCM_IMAGE


class EnvironmentVariables(Section):
    """`NAME=VALUE` lines by the kind of slot; a later line of the same name wins."""

    cpu: Items[str] = ()
    cuda: Items[str] = ()
    rocm: Items[str] = ()


class RegistryAuth(Section):
    """Credentials of an image registry. Taken whole from one document, never mixed."""

    username: str | None = None
    password: str | None = Field(default=None, repr=False)
    auth: str | None = Field(default=None, repr=False)
    email: str | None = None
    serveraddress: str | None = None
    identitytoken: str | None = Field(default=None, repr=False)
    registrytoken: str | None = Field(default=None, repr=False)


class ProxyPort(Item):
    proxy_port: Port
    proxy_tcp: bool = False
    unauthenticated: bool = False
    default_service_id: bool = False


class Environment(Section):
    image: Image = Image()
    environment_variables: EnvironmentVariables = EnvironmentVariables()
    force_pull_image: bool = False
    registry_auth: RegistryAuth | None = None
    add_capabilities: Items[str] = ()
    drop_capabilities: Items[str] = ()
    ports: dict[str, Integer] = Field(default_factory=dict)
    proxy_ports: Items[ProxyPort] = ()
    pod_spec: FreeMap | None = None
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
    container_path: Annotated[str, AfterValidator(_not_dot)]
    read_only: bool = False
    propagation: str = "rprivate"


class Device(Item):
    host_path: str
    container_path: str
    mode: str = "mrw"

    @model_validator(mode="before")
    @classmethod
    def _only_valid_strings_were_split(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(f'invalid device string "{value}": write "host:container[:mode]"')
        return value


def _shm_size(value: Any) -> Any:
    """Strings that could be read have become bytes before (see `normalise`)."""
    if isinstance(value, str):
        raise ValueError(f'failed to parse shm_size: "{value}" is not a size such as "64MiB"')
    return value


ShmSize = Annotated[NonNegative, BeforeValidator(_shm_size)]
"""Bytes."""
