"""`task_container_defaults`: what the cluster, and a pool over it, put under every task's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from master.core.expconf.models.environment import (
    IN_CONTAINERS,
    NO_KUBERNETES,
    BindMount,
    Device,
    EnvironmentVariables,
    Image,
    RegistryAuth,
    TaskLimits,
)
from master.core.expconf.models.experiment import DEFAULT_PREEMPTION_TIMEOUT_S
from master.core.expconf.models.log_policies import LogPolicies, merge_log_policies
from master.core.expconf.models.schema import FreeMap, Items, NonNegative, Positive, Section
from master.core.expconf.models.sections import Pbs, Slurm
from master.core.expconf.parsing.merging import merge_items
from master.core.expconf.parsing.normalise import DEVICE_TYPES, normalise_container_defaults
from windlass.base.formats.python_name import python_name
from windlass.base.no_effect import NoEffect

DEFAULT_SHM_SIZE_BYTES = 4 * 1024**3
_PORT_RANGE = r"^(\d{1,5}:\d{1,5})?$"


NO_NCCL_PORTS = NoEffect(
    "NCCL has no such setting: net.ipv4.ip_local_port_range of the machines decides"
)


class KubernetesDefaults(Section):
    """For pods."""

    max_slots_per_pod: NonNegative | None = None
    """The most slots of one."""


class TaskContainerDefaults(Section):
    """What lies under every task's configuration, complete.

    Merge raw sections first: a default must not win over the cluster's value.
    """

    shm_size_bytes: Positive = DEFAULT_SHM_SIZE_BYTES
    """Of the private /dev/shm of each task, where its agent has namespaces."""
    network_mode: Annotated[str, Field(min_length=1), IN_CONTAINERS] = "bridge"
    """The container's network."""
    dtrain_network_interface: str | None = None
    """NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME of trials on several agents."""
    nccl_port_range: Annotated[str, Field(pattern=_PORT_RANGE), NO_NCCL_PORTS] = ""
    """MIN:MAX."""
    gloo_port_range: Annotated[str, Field(pattern=_PORT_RANGE)] = ""
    """MIN:MAX, for GLOO_PORT_RANGE of trials on several agents."""
    image: Annotated[Image | None, IN_CONTAINERS] = None
    """The container image: one name, or one by the kind of slot."""
    environment_variables: EnvironmentVariables | None = None
    """`NAME=VALUE` lines: one list, or one by the kind of slot."""
    force_pull_image: Annotated[bool, IN_CONTAINERS] = False
    """Pull the image even if the machine has it."""
    registry_auth: Annotated[RegistryAuth | None, IN_CONTAINERS] = None
    """Credentials of the image's registry."""
    add_capabilities: Annotated[Items[str], IN_CONTAINERS] = ()
    """Linux capabilities that the container gets."""
    drop_capabilities: Annotated[Items[str], IN_CONTAINERS] = ()
    """Linux capabilities that the container loses."""
    devices: Annotated[Items[Device], IN_CONTAINERS] = ()
    """Device files that the container gets."""
    bind_mounts: Items[BindMount] = ()
    """Directories of the agent's machine in the task."""
    limits: TaskLimits = TaskLimits()
    """What each container may use at most."""
    python: Annotated[str, AfterValidator(python_name)] | None = None
    """The Python of processes; see `environment.python` of an experiment."""
    prologue: Items[str] = ()
    """Lines of shell before every process."""
    work_dir: str | None = None
    """Where commands start that bring no files."""
    startup_hook: str = ""
    """Run by bash while a task is set up."""
    log_policies: LogPolicies = ()
    """What to do when a line of a task's log matches."""
    preemption_timeout: NonNegative = DEFAULT_PREEMPTION_TIMEOUT_S
    """Seconds a preempted trial gets to checkpoint and leave."""
    cpu_pod_spec: Annotated[FreeMap | None, NO_KUBERNETES] = None
    """The pod of tasks without slots."""
    gpu_pod_spec: Annotated[FreeMap | None, NO_KUBERNETES] = None
    """The pod of tasks with slots."""
    checkpoint_gc_pod_spec: Annotated[FreeMap | None, NO_KUBERNETES] = None
    """The pod that deletes checkpoints."""
    kubernetes: Annotated[KubernetesDefaults, NO_KUBERNETES] = KubernetesDefaults()
    """For pods."""
    slurm: Slurm = Slurm()
    """For jobs of Slurm."""
    pbs: Pbs = Pbs()
    """For jobs of PBS."""


def merge_container_defaults(pool: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
    """A pool's raw section over the cluster's. Defaults are not filled in."""
    high, low = normalise_container_defaults(pool), normalise_container_defaults(cluster)
    result = {**low, **{key: value for key, value in high.items() if _is_set(value)}}
    both = {key for key in high if high[key] is not None and low.get(key) is not None}
    result |= {key: _MERGED[key](high[key], low[key]) for key in both if key in _MERGED}
    return result


def _is_set(value: Any) -> bool:
    """Empty strings, zeros and false do not win: a pool cannot unset what the cluster sets."""
    return value not in (None, "", 0, False)


def _variables(high: Mapping[str, Any], low: Mapping[str, Any]) -> dict[str, Any]:
    """The pool's, then the cluster's whose name the pool does not set."""

    def of_type(device: str) -> list[str]:
        own: list[str] = list(high.get(device) or ())
        names = {line.partition("=")[0] for line in own}
        others = low.get(device) or ()
        return own + [line for line in others if line.partition("=")[0] not in names]

    return {device: of_type(device) for device in DEVICE_TYPES}


def _sorted_union(high: Iterable[str], low: Iterable[str]) -> list[str]:
    return sorted({*high, *low})


def _low_first(high: Iterable[str], low: Iterable[str]) -> list[str]:
    return [*low, *high]


def _by_path(high: Any, low: Any) -> Any:
    return merge_items(high, low, "container_path")


def _batch(arguments: str) -> Any:
    def rule(high: Mapping[str, Any], low: Mapping[str, Any]) -> dict[str, Any]:
        joined = [*(high.get(arguments) or ()), *(low.get(arguments) or ())]
        own = {key: value for key, value in high.items() if value is not None}
        return {**low, **own, arguments: joined}

    return rule


def _image(high: Mapping[str, Any], low: Mapping[str, Any]) -> dict[str, Any]:
    return {**low, **{key: value for key, value in high.items() if value is not None}}


_MERGED = {
    "environment_variables": _variables,
    "add_capabilities": _sorted_union,
    "drop_capabilities": _sorted_union,
    "devices": _by_path,
    "bind_mounts": _by_path,
    "log_policies": merge_log_policies,
    "prologue": _low_first,
    "image": _image,
    "limits": _image,
    "slurm": _batch("sbatch_args"),
    "pbs": _batch("pbsbatch_args"),
}

_ENVIRONMENT_KEYS = (
    "image",
    "registry_auth",
    "force_pull_image",
    "environment_variables",
    "add_capabilities",
    "drop_capabilities",
    "python",
    "prologue",
)
_TOP_KEYS = ("bind_mounts", "log_policies", "preemption_timeout", "slurm", "pbs")


def experiment_layer(container_defaults: Mapping[str, Any], *, aux: bool) -> dict[str, Any]:
    """What of a raw section goes under an experiment's configuration. `aux`: its trials use no slots."""
    given = {
        key: value
        for key, value in normalise_container_defaults(container_defaults).items()
        if value is not None
    }
    environment = {key: given[key] for key in _ENVIRONMENT_KEYS if key in given}
    pod_spec = given.get("cpu_pod_spec" if aux else "gpu_pod_spec")
    if pod_spec is not None:
        environment["pod_spec"] = pod_spec
    layer: dict[str, Any] = {key: given[key] for key in _TOP_KEYS if key in given}
    if environment:
        layer["environment"] = environment
    if resources := {key: given[key] for key in ("devices", "limits") if key in given}:
        layer["resources"] = resources
    return layer


def prepend_batch_arguments(
    document: Mapping[str, Any], container_defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """The cluster's sbatch and PBS arguments before the user's, which would otherwise replace them."""
    result = dict(document)
    for section, key in (("slurm", "sbatch_args"), ("pbs", "pbsbatch_args")):
        own, cluster = result.get(section), container_defaults.get(section)
        if not (isinstance(own, Mapping) and isinstance(cluster, Mapping)):
            continue
        if isinstance(own.get(key), list) and isinstance(cluster.get(key), list):
            result[section] = {**own, key: [*cluster[key], *own[key]]}
    return result
