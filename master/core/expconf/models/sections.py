"""The smaller sections of an experiment configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from master.core.expconf.models.environment import (
    IN_CONTAINERS,
    IN_SIZED_SHM,
    Device,
    ShmSize,
    TaskLimits,
)
from master.core.expconf.models.machine_requirements import MachineRequirements
from master.core.expconf.models.schema import (
    Integer,
    Item,
    Items,
    NonNegative,
    Number,
    Positive,
    Priority,
    Section,
)
from windlass.base.no_effect import NoEffect

NATIVE_PARALLEL = NoEffect("it never had one")

MAX_SEED = 2**32 - 1
MAX_RETENTION_DAYS = 32767


class Resources(MachineRequirements):
    """What trials get, and their place in the queue."""

    slots_per_trial: NonNegative = 1
    """0: an auxiliary trial, on CPUs."""
    max_slots: NonNegative | None = None
    """Over all trials of the experiment. 0 holds all of them back."""
    weight: Annotated[Number, Field(gt=0)] = 1.0
    """Of its share in a pool with fair_share."""
    priority: Priority | None = None
    """1 (most important) to 99. None: the pool's default."""
    resource_pool: str = ""
    """Empty: the cluster's default pool."""
    shm_size: Annotated[ShmSize | None, IN_SIZED_SHM] = None
    """Bytes of a private /dev/shm, or a size such as "64MiB". Agents without namespaces cannot, and say so."""
    limits: TaskLimits = TaskLimits()
    """What each container may use at most."""
    is_single_node: bool | None = None
    """All slots of a trial on one agent."""
    native_parallel: Annotated[bool, NATIVE_PARALLEL] = False
    """Of old releases."""
    devices: Annotated[Items[Device], IN_CONTAINERS] = ()
    """Device files that the container gets."""
    agent_label: Annotated[str | None, NoEffect("use a resource pool of its own")] = Field(
        default=None, exclude=True
    )
    """Of old releases: only agents with this label."""


class Reproducibility(Section):
    """What makes a search the same again."""

    experiment_seed: Annotated[Integer, Field(ge=0, le=MAX_SEED)]
    """Of all samples and of the trials' own seeds. Without one: the time of submission."""


class Profiling(Section):
    """Measurements of the machine while a trial runs; read by the harness in the task."""

    enabled: bool = False
    """Whether they are taken."""
    begin_on_batch: NonNegative = 0
    """The first batch."""
    end_after_batch: NonNegative | None = None
    """The last batch."""
    sync_timings: bool = True
    """Wait for the GPU before each measurement."""

    @model_validator(mode="after")
    def _ordered(self) -> Profiling:
        if self.end_after_batch is not None and self.begin_on_batch > self.end_after_batch:
            raise ValueError("begin_on_batch must be less than end_after_batch")
        return self


class Optimizations(Section):
    """Only Trial classes of the published harness read these, most of them only with Horovod."""

    aggregation_frequency: Positive = 1
    """Batches between exchanges of gradients."""
    average_aggregated_gradients: bool = True
    """Divide by that number."""
    average_training_metrics: bool = True
    """Over all slots."""
    gradient_compression: bool = False
    """Exchange gradients in 16 bits."""
    grad_updates_size_file: str | None = None
    """Where sizes of gradients are written."""
    mixed_precision: Literal["O0", "O1", "O2", "O3"] = "O0"
    """Level of Apex."""
    auto_tune_tensor_fusion: bool = False
    """Let Horovod choose the next two."""
    tensor_fusion_cycle_time: NonNegative = 1
    """Milliseconds."""
    tensor_fusion_threshold: NonNegative = 64
    """MiB."""


class RetentionPolicy(Item):
    """How long its task logs are kept."""

    log_retention_days: Annotated[Integer, Field(ge=-1, le=MAX_RETENTION_DAYS)]
    """-1: for ever. 0: until the end."""


class Slurm(Section):
    """For jobs of Slurm. Of no effect in pools without it."""

    slots_per_node: Positive | None = None
    """How many slots are asked for on each node."""
    gpu_type: str | None = None
    """Which GPUs."""
    sbatch_args: Items[str] = ()
    """Further arguments of sbatch."""


class Pbs(Section):
    """For jobs of PBS."""

    slots_per_node: Positive | None = None
    """How many slots are asked for on each node."""
    pbsbatch_args: Items[str] = ()
    """Further arguments of qsub."""


class Webhooks(Section):
    """Which webhooks this experiment triggers."""

    webhook_id: Items[Integer] | None = None
    """By their ids."""
    webhook_name: Items[str] | None = None
    """By their names."""
    exclude: bool = False
    """None at all."""


class Pachd(Item):
    """Pachyderm's server."""

    host: str
    """Its host."""
    port: Integer
    """Its port."""


class PachydermProxy(Item):
    """Pachyderm's proxy."""

    scheme: str
    """http or https."""
    host: str
    """Its host."""
    port: Integer
    """Its port."""


class PachydermDataset(Item):
    """A version of data."""

    project: str
    """The project."""
    repo: str
    """The repository in it."""
    commit: str
    """The commit."""
    branch: str
    """The branch."""
    token: str = Field(repr=False)
    """Opens it."""


class Pachyderm(Item):
    """Where the data of a trial lies; read by the program in the task."""

    pachd: Pachd
    """The server."""
    proxy: PachydermProxy
    """The proxy."""
    dataset: PachydermDataset
    """The data."""


class Integrations(Section):
    """Other systems."""

    webhooks: Webhooks | None = None
    """Which webhooks this experiment triggers."""
    pachyderm: Pachyderm | None = None
    """Where the data of a trial lies; read by the program in the task."""


class Kerberos(Section):
    """Of old releases."""

    config_file: str | None = None
    """Of old releases."""


class Security(Section):
    """Of old releases."""

    kerberos: Kerberos | None = None
    """Of old releases."""
