"""The whole experiment configuration, every default filled in: what runs, and what clients are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Tag, ValidationError

from master.core.expconf.environment import BindMount, Environment
from master.core.expconf.errors import explain
from master.core.expconf.hyperparameters import Hyperparameter
from master.core.expconf.lengths import Length
from master.core.expconf.log_policies import LogPolicy, check_names
from master.core.expconf.schema import (
    TAG_MARK,
    FreeMap,
    Integer,
    Items,
    NonNegative,
    Positive,
    Section,
    discriminated,
)
from master.core.expconf.searchers import Searcher
from master.core.expconf.sections import (
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
from master.core.expconf.storage import CheckpointStorage
from windlass.base.errors import InvalidConfig

ROOT = "<config>"
WHAT = "experiment configuration"

IGNORED_KEYS = ("security", "tensorboard_storage", "data_layer", "internal")
"""Accepted so that old configurations still work, and then dropped."""

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
    """Complete and frozen. `to_json` is what `DET_EXPERIMENT_CONFIG` and the REST API carry."""

    name: str
    description: str | None = None
    labels: Items[str] = ()
    data: FreeMap = Field(default_factory=dict)
    """The user's own, passed through to the task."""
    entrypoint: Entrypoint | None = None
    workspace: str = ""
    project: str = ""
    max_restarts: NonNegative = 5
    """Failed runs of each trial that are retried."""
    debug: bool = False
    hyperparameters: dict[str, Hyperparameter] = Field(default_factory=dict)
    searcher: Searcher
    records_per_epoch: Integer = 0
    scheduling_unit: Positive = 100
    """Batches between reports of progress and metrics."""
    min_validation_period: Length = Length(batches=0)
    min_checkpoint_period: Length = Length(batches=0)
    perform_initial_validation: bool = False
    checkpoint_policy: Literal["best", "all", "none"] = "best"
    checkpoint_storage: CheckpointStorage
    reproducibility: Reproducibility
    profiling: Profiling = Profiling()
    optimizations: Optimizations = Optimizations()
    preemption_timeout: NonNegative = DEFAULT_PREEMPTION_TIMEOUT_S
    """Seconds a preempted trial gets to checkpoint and leave."""
    log_policies: Annotated[Items[LogPolicy], AfterValidator(check_names)] = ()
    retention_policy: RetentionPolicy | None = None
    integrations: Integrations | None = None
    bind_mounts: Items[BindMount] = ()
    environment: Environment = Environment()
    resources: Resources = Resources()
    slurm: Slurm = Slurm()
    pbs: Pbs = Pbs()

    security: Security | None = Field(default=None, exclude=True)
    tensorboard_storage: FreeMap | None = Field(default=None, exclude=True)
    data_layer: FreeMap | None = Field(default=None, exclude=True)
    internal: None = Field(default=None, exclude=True)

    def to_json(self) -> dict[str, Any]:
        """Every key with its value or default, JSON-able, in a new dict."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ExperimentConfig:
        """Read back what `to_json` wrote. Raises `InvalidConfig`."""
        try:
            return cls.model_validate(dict(document))
        except ValidationError as error:
            problems = [problem.line for problem in explain(error, cls, root=ROOT)]
            raise InvalidConfig(problems, what=WHAT) from None
