"""`resource_manager`: pools of agents, or a pool for each partition or queue of one site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, Tag, model_validator

from master.core.expconf.models.schema import (
    TAG_MARK,
    FreeMap,
    Item,
    Port,
    Section,
    discriminated,
)
from master.core.scheduler.types import SchedulerSettings
from provisioner.sections.batch import BatchSection, SiteKeys, pool_section, project_source
from provisioner.sections.pools import PoolName
from provisioner.sections.slurm_api import require_slurm
from windlass.base.no_effect import NoEffect

MANAGERS = ("agent", "slurm", "pbs")
PLANNED_MANAGERS = ("kubernetes", "dispatcher")
_NO_LAUNCHER = NoEffect("there is no launcher: the master submits jobs itself", together=True)
_NOT_SERVED = NoEffect("tasks on nodes serve nothing to users yet")
_ONE_MANAGER = NoEffect(
    "there is one resource manager; `cluster_name` at the top is shown to users"
)


class ManagerNames(Section):
    """What every kind of resource manager may be called."""

    cluster_name: Annotated[str, _ONE_MANAGER] = "default"
    """Its name among several."""
    name: Annotated[str | None, _ONE_MANAGER] = None
    """Of old releases."""
    metadata: Annotated[dict[str, str], _ONE_MANAGER] = Field(default_factory=dict)
    """Shown beside its name."""


class AgentResourceManager(ManagerNames):
    """Pools of agents."""

    type: Literal["agent"] = "agent"
    """Others are refused."""
    scheduler: SchedulerSettings = SchedulerSettings()
    """Of every pool that has no section of its own."""
    default_aux_resource_pool: PoolName | None = None
    """Where work without slots goes that names no pool. None: the only pool, or the one called `default`."""
    default_compute_resource_pool: PoolName | None = None
    """Where work with slots goes that names no pool. None: the only pool, or the one called `default`."""
    no_default_resource_pools: bool = False
    """Whoever submits must name a pool."""
    require_authentication: bool = False
    """true is refused: agents join with a token."""
    client_ca: Annotated[str, NoEffect("agents join with a token, not with a certificate")] = ""
    """The authority of agents' certificates."""

    @model_validator(mode="after")
    def _no_false_safety(self) -> AgentResourceManager:
        if self.require_authentication:
            raise ValueError(
                "require_authentication is not supported yet: agents join with a token instead"
            )
        return self


def _gpu_alias(value: Any) -> Any:
    return "cuda" if value == "gpu" else value


SlotType: TypeAlias = Annotated[Literal["cuda", "rocm", "cpu"], BeforeValidator(_gpu_alias)]


class LauncherTls(Section):
    """How the launcher is reached."""

    enabled: bool = False
    """Speak TLS."""
    skip_verify: bool = False
    """Accept any certificate."""
    certificate: str = ""
    """A file with the certificate to trust."""
    certificate_name: str = ""
    """The name in it."""


class LauncherSecurity(Section):
    """How the launcher is reached."""

    tls: LauncherTls = LauncherTls()
    """How the launcher is reached."""


class PartitionOverride(Item):
    """What is different in the pool of one partition or queue."""

    description: str = ""
    """Shown to users."""
    slot_type: SlotType | None = None
    """As in the resource manager."""
    rendezvous_network_interface: str | None = None
    """As in the resource manager."""
    proxy_network_interface: Annotated[str | None, _NOT_SERVED] = None
    """By which network users reach what tasks serve."""
    task_container_defaults: FreeMap | None = Field(default=None, repr=False)
    """Over the cluster's section of that name, for tasks in this partition; a pool's own is laid over it."""


class BatchResourceManager(SiteKeys, ManagerNames):
    """A dispatch pool for each partition of Slurm, or queue of PBS, called as that is.

    They are found out at each start of the master, and remembered for when the site does not answer then. A pool of
    that name in `resource_pools` stands for it.
    """

    type: Literal["slurm", "pbs"]
    """Which batch system."""
    job_project_source: Annotated[str, AfterValidator(project_source)] = "project"
    """What jobs are booked on, as a wckey of Slurm (where the site has those) or a project of PBS: the `project` or
    `workspace` of an experiment, its labels (`label`), or those that begin so, without that (`label:PREFIX`). Empty:
    nothing."""
    slot_type: SlotType | None = None
    """What a slot is. None: a CUDA GPU if the nodes of the queue have GPUs, else a CPU."""
    default_aux_resource_pool: str = ""
    """Where work without slots goes that names no pool. Empty: the site's default partition; if that has GPUs, one that
    has none."""
    default_compute_resource_pool: str = ""
    """Where work with slots goes that names no pool. Empty: the site's default partition."""
    partition_overrides: dict[str, PartitionOverride] = Field(default_factory=dict)
    """By partition or queue, in any case of letters."""
    master_host: str = ""
    """Where nodes reach the master. Empty: as agents of other pools do."""
    master_port: Port | None = None
    """Where nodes reach the master, with master_host. None: `port` at the top."""
    container_run_type: Literal["singularity", "apptainer", "podman", "enroot"] | None = None
    """What runs tasks on the nodes: container_runtime by another name."""
    singularity_image_root: str = ""
    """image_root by another name."""
    apptainer_image_root: str = ""
    """image_root by another name."""
    proxy_network_interface: Annotated[str, _NOT_SERVED] = ""
    """By which network users reach what tasks serve."""
    tres_supported: Annotated[
        bool, NoEffect("GPUs are asked for by node, which every release of Slurm takes")
    ] = True
    """Whether GPUs may be asked for by job."""
    host: Annotated[str, _NO_LAUNCHER] = ""
    """The launcher's."""
    port: Annotated[Port, _NO_LAUNCHER] = 8181
    """The launcher's."""
    protocol: Annotated[str, _NO_LAUNCHER] = "http"
    """The launcher's."""
    security: Annotated[LauncherSecurity, _NO_LAUNCHER] = LauncherSecurity()
    """How the launcher is reached."""
    auth_file: Annotated[str, _NO_LAUNCHER] = ""
    """The launcher's token."""
    launcher_jvm_args: Annotated[str, _NO_LAUNCHER] = ""
    """Of the launcher's Java."""
    user_name: Annotated[str, _NO_LAUNCHER] = ""
    """Whom the launcher runs as."""
    group_name: Annotated[str, _NO_LAUNCHER] = ""
    """Whom the launcher runs as."""
    sudo_authorized: Annotated[str, _NO_LAUNCHER] = "ALL"
    """As whom the launcher may submit jobs. With `impersonate` these words belong into sudoers of the site."""

    @model_validator(mode="after")
    def _by_one_name(self) -> BatchResourceManager:
        for key, others in _OTHER_NAMES.items():
            given = [name for name in (key, *others) if getattr(self, name)]
            if len(given) > 1:
                raise ValueError(f"{' and '.join(given)} are the same: give one of them")
        for key in _OTHER_NAMES["image_root"]:
            if (path := getattr(self, key)) and not path.startswith("/"):
                raise ValueError(f'{key}: "{path}" is not an absolute path')
        if self.master_port is not None and not self.master_host:
            raise ValueError("master_port needs master_host")
        if self.type == "pbs":
            require_slurm(self.api)
        if len(set(map(str.lower, self.partition_overrides))) < len(self.partition_overrides):
            raise ValueError("partition_overrides has a name twice, in other letters")
        return self

    def override(self, queue: str) -> PartitionOverride:
        found = {name.lower(): one for name, one in self.partition_overrides.items()}
        return found.get(queue.lower()) or PartitionOverride()

    def provider(self, queue: str, *, scheme: str, port: int) -> BatchSection:
        """Of the pool of a partition or queue. `scheme`, `port`: of this master."""
        other = self.override(queue)
        changes: dict[str, Any] = {}
        if other.slot_type is not None:
            changes["slot_type"] = other.slot_type
        if other.rendezvous_network_interface is not None:
            changes["rendezvous_network_interface"] = other.rendezvous_network_interface
        if self.master_host:
            changes["master_url"] = f"{scheme}://{self.master_host}:{self.master_port or port}"
        if root := self.singularity_image_root or self.apptainer_image_root:
            changes["image_root"] = root
        if self.container_run_type is not None:
            changes["container_runtime"] = self.container_run_type
        return pool_section(self.model_copy(update=changes), self.type, queue)


_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "image_root": ("singularity_image_root", "apptainer_image_root"),
    "container_runtime": ("container_run_type",),
    "master_url": ("master_host",),
}


def _known_manager(value: Any) -> Any:
    name = value.get("type", "agent") if isinstance(value, dict) else None
    if name in PLANNED_MANAGERS:
        raise ValueError(f"resource manager type {name} is not supported yet")
    if isinstance(name, str) and name not in MANAGERS:
        raise ValueError(f'type "{name}" is unknown: use one of {", ".join(MANAGERS)}')
    return value


def _manager_tag(value: Any) -> str | None:
    name = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return TAG_MARK + ("agent" if name is None else "batch" if name != "agent" else str(name))


ResourceManagerSection: TypeAlias = Annotated[
    Annotated[AgentResourceManager, Tag(TAG_MARK + "agent")]
    | Annotated[BatchResourceManager, Tag(TAG_MARK + "batch")],
    discriminated(_manager_tag, "type is unknown"),
    BeforeValidator(_known_manager),
]
