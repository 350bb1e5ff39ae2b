"""The whole experiment configuration, every default filled in: what runs, and what clients are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, Tag, ValidationError

from master.core.expconf.models.environment import BindMount, Environment
from master.core.expconf.models.hyperparameters import Hyperparameter
from master.core.expconf.models.lengths import Length
from master.core.expconf.models.log_policies import STORED, LogPolicies
from master.core.expconf.models.schema import (
    TAG_MARK,
    FreeMap,
    Integer,
    Items,
    NonNegative,
    Positive,
    Section,
    discriminated,
)
from master.core.expconf.models.searchers import Searcher
from master.core.expconf.models.sections import (
    Integrations,
    Optimizations,
    Pbs,
    Profiling,
    Reproducibility,
    Resources,
    RetentionPolicy,
    Security,
    Slurm,
)
from master.core.expconf.models.storage import CheckpointStorage
from master.core.expconf.parsing.errors import explain
from windlass.base.errors import InvalidConfig
from windlass.base.no_effect import NoEffect

ROOT = "<config>"
WHAT = "experiment configuration"

IGNORED_KEYS = ("security", "tensorboard_storage", "data_layer", "internal")
"""Accepted so that old configurations still work, and then dropped."""

DROPPED = NoEffect("it is of old releases, and dropped")

DEFAULT_PREEMPTION_TIMEOUT_S = 3600


def _form(value: Any) -> str | None:
    if isinstance(value, str):
        return TAG_MARK + "shell"
    return TAG_MARK + "argv" if isinstance(value, list | tuple) else None


Entrypoint = Annotated[
    Annotated[str, Tag(TAG_MARK + "shell")] | Annotated[Items[str], Tag(TAG_MARK + "argv")],
    discriminated(_form, "expected string or array or null"),
]
"""A string is run by `sh -c`, a list is the argument vector."""


class ExperimentConfig(Section):
    """An experiment, complete and frozen. `to_json` is what `DET_EXPERIMENT_CONFIG` and the REST API carry."""

    name: str
    """Shown to users. Without one: Experiment (eight letters)."""
    description: str | None = None
    """Shown to users."""
    labels: Items[str] = ()
    """A set: lists of experiments can be filtered by them."""
    data: FreeMap = Field(default_factory=dict)
    """The user's own, passed through to the task."""
    entrypoint: Entrypoint | None = None
    """A string is run by `sh -c`, a list is the argument vector; `module:TrialClass` needs the published package."""
    workspace: str = ""
    """The workspace of `project`."""
    project: str = ""
    """Where it is listed. Without one, in Uncategorized."""
    max_restarts: NonNegative = 5
    """Failed runs of each trial that are retried."""
    debug: bool = False
    """The harness in the task logs more."""
    hyperparameters: dict[str, Hyperparameter] = Field(default_factory=dict)
    """The search space: typed leaves in nested maps; a bare value is a constant."""
    searcher: Searcher
    """How trials are chosen, and when they stop."""
    records_per_epoch: Integer = 0
    """For lengths in epochs; read by the harness in the task."""
    scheduling_unit: Positive = 100
    """Batches between reports of progress and metrics; read by the harness in the task."""
    min_validation_period: Length = Length(batches=0)
    """Trial classes validate at least so often. 0: only when they must."""
    min_checkpoint_period: Length = Length(batches=0)
    """Trial classes save at least so often. 0: only when they must."""
    perform_initial_validation: bool = False
    """Trial classes validate before they train."""
    checkpoint_policy: Literal["best", "all", "none"] = "best"
    """When Trial classes save after a validation: if it was the best, always, or only when they must."""
    checkpoint_storage: CheckpointStorage
    """Where checkpoints go. Without one: the cluster's."""
    reproducibility: Reproducibility
    """What makes a search the same again."""
    profiling: Profiling = Profiling()
    """Measurements of the machine while a trial runs; read by the harness in the task."""
    optimizations: Optimizations = Optimizations()
    """Read by Trial classes of the published harness."""
    preemption_timeout: NonNegative = DEFAULT_PREEMPTION_TIMEOUT_S
    """Seconds a preempted trial gets to checkpoint and leave."""
    log_policies: LogPolicies = ()
    """What to do when a line of a task's log matches."""
    retention_policy: RetentionPolicy | None = None
    """How long its task logs are kept."""
    integrations: Integrations | None = None
    """Other systems."""
    bind_mounts: Items[BindMount] = ()
    """Directories of the agent's machine in the task."""
    environment: Environment = Environment()
    """Where its tasks run."""
    resources: Resources = Resources()
    """What trials get, and their place in the queue."""
    slurm: Slurm = Slurm()
    """For jobs of Slurm."""
    pbs: Pbs = Pbs()
    """For jobs of PBS."""

    security: Annotated[Security | None, DROPPED] = Field(default=None, exclude=True)
    """Of old releases."""
    tensorboard_storage: Annotated[FreeMap | None, DROPPED] = Field(default=None, exclude=True)
    """Of old releases."""
    data_layer: Annotated[FreeMap | None, DROPPED] = Field(default=None, exclude=True)
    """Of old releases."""
    internal: None = Field(default=None, exclude=True)
    """Must be null."""

    @property
    def log_retention_days(self) -> int | None:
        """None: as the cluster says."""
        return None if self.retention_policy is None else self.retention_policy.log_retention_days

    def to_json(self) -> dict[str, Any]:
        """Every key with its value or default, JSON-able, in a new dict."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ExperimentConfig:
        """Read back what `to_json` wrote. Raises `InvalidConfig`."""
        try:
            return cls.model_validate(dict(document), context=STORED)
        except ValidationError as error:
            problems = [problem.line for problem in explain(error, cls, root=ROOT)]
            raise InvalidConfig(problems, what=WHAT) from None
