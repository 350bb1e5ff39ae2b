"""The smaller sections of an experiment configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from master.core.expconf.environment import Device, ShmSize
from master.core.expconf.schema import (
    Integer,
    Item,
    Items,
    NonNegative,
    Number,
    Positive,
    Priority,
    Section,
)

MAX_SEED = 2**32 - 1
MAX_RETENTION_DAYS = 32767


class Resources(Section):
    slots_per_trial: NonNegative = 1
    """0: an auxiliary trial, on CPUs."""
    max_slots: NonNegative | None = None
    """Over all trials of the experiment."""
    weight: Annotated[Number, Field(gt=0)] = 1.0
    priority: Priority | None = None
    resource_pool: str = ""
    """Empty: the cluster's default pool."""
    shm_size: ShmSize | None = None
    is_single_node: bool | None = None
    native_parallel: bool = False
    devices: Items[Device] = ()
    agent_label: str | None = Field(default=None, exclude=True)
    """Accepted and ignored."""


class Reproducibility(Section):
    experiment_seed: Annotated[Integer, Field(ge=0, le=MAX_SEED)]


class Profiling(Section):
    enabled: bool = False
    begin_on_batch: NonNegative = 0
    end_after_batch: NonNegative | None = None
    sync_timings: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> Profiling:
        if self.end_after_batch is not None and self.begin_on_batch > self.end_after_batch:
            raise ValueError("begin_on_batch must be less than end_after_batch")
        return self


class Optimizations(Section):
    """Only Horovod-era trials read most of these."""

    aggregation_frequency: Positive = 1
    average_aggregated_gradients: bool = True
    average_training_metrics: bool = True
    gradient_compression: bool = False
    grad_updates_size_file: str | None = None
    mixed_precision: Literal["O0", "O1", "O2", "O3"] = "O0"
    auto_tune_tensor_fusion: bool = False
    tensor_fusion_cycle_time: NonNegative = 1
    tensor_fusion_threshold: NonNegative = 64


class RetentionPolicy(Item):
    log_retention_days: Annotated[Integer, Field(ge=-1, le=MAX_RETENTION_DAYS)]
    """-1: for ever. 0: until the end."""


class Slurm(Section):
    slots_per_node: Positive | None = None
    gpu_type: str | None = None
    sbatch_args: Items[str] = ()


class Pbs(Section):
    slots_per_node: Positive | None = None
    pbsbatch_args: Items[str] = ()


class Webhooks(Section):
    """Which webhooks this experiment triggers."""

    webhook_id: Items[Integer] | None = None
    webhook_name: Items[str] | None = None
    exclude: bool = False


class Pachd(Item):
    host: str
    port: Integer


class PachydermProxy(Item):
    scheme: str
    host: str
    port: Integer


class PachydermDataset(Item):
    project: str
    repo: str
    commit: str
    branch: str
    token: str = Field(repr=False)


class Pachyderm(Item):
    pachd: Pachd
    proxy: PachydermProxy
    dataset: PachydermDataset


class Integrations(Section):
    webhooks: Webhooks | None = None
    pachyderm: Pachyderm | None = None


class Kerberos(Section):
    config_file: str | None = None


class Security(Section):
    """Accepted and ignored."""

    kerberos: Kerberos | None = None
