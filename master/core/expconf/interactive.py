"""The configurations of interactive tasks: one service or program on one node, with slots or without."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from master.core.expconf.container_defaults import experiment_layer
from master.core.expconf.images import environment_problems
from master.core.expconf.models.environment import (
    IN_CONTAINERS,
    IN_SIZED_SHM,
    BindMount,
    Device,
    Environment,
    ShmSize,
    TaskLimits,
)
from master.core.expconf.models.experiment import DEFAULT_PREEMPTION_TIMEOUT_S, ROOT
from master.core.expconf.models.machine_requirements import MachineRequirements
from master.core.expconf.models.schema import Items, NonNegative, Number, Priority, Section
from master.core.expconf.models.sections import NATIVE_PARALLEL, Pbs, Slurm
from master.core.expconf.parsing.errors import explain, first_problems, json_kind
from master.core.expconf.parsing.merging import merge
from master.core.expconf.parsing.normalise import normalise
from master.core.expconf.parsing.texts import text_problems
from master.core.expconf.reading import ClusterDefaults, refuse_masks
from master.core.words import three_words
from windlass.base.errors import InvalidConfig
from windlass.base.formats.documents import MalformedDocument, plain
from windlass.base.formats.duration_field import Duration
from windlass.base.formats.durations import format_duration
from windlass.base.no_effect import NoEffect

_CONTAINER_KEYS = ("bind_mounts", "environment", "resources", "slurm", "pbs")
"""What of an experiment's layer of container defaults an interactive task has too."""
_DIGEST_LENGTH = 8
SHARED_FILE = "one file may serve other tasks too"


def _single_node(value: bool) -> bool:
    if not value:
        raise ValueError("must be true: it runs on one node; use an experiment for several")
    return value


def _arguments(value: Any) -> Any:
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected string or array, but got {json_kind(value)}")
    if not value or (isinstance(value[0], str) and not value[0].strip()):
        raise ValueError("must not be empty: say what to run, such as [python3, evaluate.py]")
    return value


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta(0):
        raise ValueError(f"must be >= 0s but found {format_duration(value)}")
    return value


Entrypoint = Annotated[Items[str], BeforeValidator(_arguments)]
IdleTimeout = Annotated[Duration, AfterValidator(_not_negative)]
NotebookIdleType = Literal["kernels_or_terminals", "kernel_connections", "activity"]


class TaskResources(MachineRequirements):
    """What the task gets, and its place in the queue."""

    slots: NonNegative = 1
    """0: an auxiliary task, on CPUs."""
    max_slots: Annotated[NonNegative | None, NoEffect("a task never holds more than its slots")] = (
        None
    )
    """One file may serve experiments too."""
    weight: Annotated[Number, Field(gt=0)] = 1.0
    """Of its share in a pool with fair_share."""
    priority: Priority | None = None
    """1 (most important) to 99. None: the pool's default."""
    resource_pool: str = ""
    """Empty: the cluster's default pool."""
    shm_size: Annotated[ShmSize | None, IN_SIZED_SHM] = None
    """Bytes of a private /dev/shm, or a size such as "64MiB". Agents without namespaces cannot, and say so."""
    limits: TaskLimits = TaskLimits()
    """What it may use at most."""
    is_single_node: Annotated[bool, AfterValidator(_single_node)] = True
    """false is refused."""
    native_parallel: Annotated[bool, NATIVE_PARALLEL] = False
    """Of old releases."""
    devices: Annotated[Items[Device], IN_CONTAINERS] = ()
    """Device files that the container gets."""


class TaskConfig(Section):
    """One task of any kind, complete and frozen. `to_json` is what the REST API shows as its `config`."""

    noun: ClassVar[str]
    """In texts for people."""
    title: ClassVar[str]
    """What its description begins with."""
    may_be_described: ClassVar[bool] = True
    """False: its description is made, whatever is given."""

    description: str
    """Shown to users. Without one, the kind of the task and three words."""
    entrypoint: Entrypoint | None = None
    """One string is run by `/bin/sh -c`, several are the argument vector. None: only the startup hooks run."""
    resources: TaskResources = TaskResources()
    """What it gets, and its place in the queue."""
    environment: Environment = Environment()
    """Where it runs."""
    bind_mounts: Items[BindMount] = ()
    """Directories of the agent's machine in the task."""
    slurm: Slurm = Slurm()
    """For jobs of Slurm."""
    pbs: Pbs = Pbs()
    """For jobs of PBS."""
    work_dir: str | None = None
    """Where it starts. None: the task's own directory, where the files that came with it are."""
    debug: Annotated[bool, NoEffect("the task prints what its program does, nothing more")] = False
    """One file may serve experiments too."""

    @classmethod
    def what(cls) -> str:
        """What an error calls it."""
        return f"{cls.noun} configuration"

    @classmethod
    def name_of(cls, task_id: str) -> str:
        """The description of a task that was given none."""
        return f"{cls.title} ({three_words(task_id)})"

    @classmethod
    def defaults(cls, cluster: ClusterDefaults) -> dict[str, Any]:
        """What the cluster says for tasks of this kind, beyond what it says for all."""
        return {}

    @property
    def leaves_within_s(self) -> int:
        """How long it gets to leave, once it is asked to."""
        return DEFAULT_PREEMPTION_TIMEOUT_S

    def to_json(self) -> dict[str, Any]:
        """Every key with its value or default, JSON-able, in a new dict."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read back what `to_json` wrote. Raises `InvalidConfig`."""
        try:
            return cls.model_validate(dict(document))
        except ValidationError as error:
            lines = [problem.line for problem in explain(error, cls, root=ROOT)]
            raise InvalidConfig(
                [line + cls._hint(line) for line in lines], what=cls.what()
            ) from None

    @classmethod
    def _hint(cls, line: str) -> str:
        given = f'{ROOT}.resources: additionalProperties "slots_per_trial" not allowed'
        return f'; a {cls.noun} has "slots"' if line == given else ""


class InteractiveConfig(TaskConfig):
    """One task of a kind whose files may serve the other such kinds too: each knows the keys of all."""

    idle_timeout: Annotated[IdleTimeout | None, NoEffect("it ends when its program does")] = None
    """One file may serve notebooks too."""
    notebook_idle_type: Annotated[NotebookIdleType, NoEffect("only notebooks have kernels")] = (
        "kernels_or_terminals"
    )
    """One file may serve notebooks too."""
    tensorboard_args: Annotated[Items[str], NoEffect("only TensorBoards take them")] = ()
    """One file may serve TensorBoards too."""


C = TypeVar("C", bound=TaskConfig)


def complete_task(
    model: type[C],
    raw: Mapping[str, Any],
    *,
    defaults: ClusterDefaults,
    description: str | None = None,
) -> C:
    """Cluster defaults under `raw`, then every remaining default.

    `description` is used if the document gives none; without either it is made from a digest of the document. Raises
    `InvalidConfig` with all problems.
    """
    what = model.what()
    try:
        raw = plain(raw)
    except MalformedDocument as error:
        raise InvalidConfig([f"{ROOT}: {error}"], what=what) from None
    if problems := first_problems(text_problems(normalise(raw), root=ROOT)):
        raise InvalidConfig(problems, what=what)
    layer = {**_cluster_layer(raw, defaults), **model.defaults(defaults)}
    document = merge(normalise(raw), layer)
    refuse_masks(document, what=what)
    if document.get("description") in (None, "") or not model.may_be_described:
        document["description"] = description or f"{model.title} ({_digest(raw)})"
    config = model.from_json(document)
    if problems := [*environment_problems(config.environment, root=f"{ROOT}.environment")]:
        raise InvalidConfig(problems, what=what)
    return config


def _cluster_layer(raw: Mapping[str, Any], defaults: ClusterDefaults) -> dict[str, Any]:
    containers = defaults.task_container_defaults
    resources = raw.get("resources")
    aux = isinstance(resources, Mapping) and resources.get("slots") == 0
    layer = {
        key: value
        for key, value in experiment_layer(containers, aux=aux).items()
        if key in _CONTAINER_KEYS
    }
    layer["resources"] = {**layer.get("resources", {}), "priority": defaults.priority}
    return {**layer, "work_dir": containers.get("work_dir")}


def _digest(raw: Mapping[str, Any]) -> str:
    text = json.dumps(raw, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
