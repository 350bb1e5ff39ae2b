"""The configuration of a command: one program on one node, with slots or without, that is no experiment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from master.core.expconf.container_defaults import experiment_layer
from master.core.expconf.documents import MalformedDocument, plain
from master.core.expconf.environment import (
    IN_CONTAINERS,
    IN_SIZED_SHM,
    BindMount,
    Device,
    Environment,
    ShmSize,
    TaskLimits,
)
from master.core.expconf.errors import explain, first_problems, json_kind
from master.core.expconf.experiment import ROOT
from master.core.expconf.images import environment_problems
from master.core.expconf.machine_requirements import MachineRequirements
from master.core.expconf.merging import merge
from master.core.expconf.normalise import normalise
from master.core.expconf.reading import ClusterDefaults, refuse_masks
from master.core.expconf.schema import Items, NonNegative, Number, Priority, Section
from master.core.expconf.sections import NATIVE_PARALLEL, Pbs, Slurm
from master.core.expconf.texts import text_problems
from windlass.base.durations import Duration, format_duration
from windlass.base.errors import InvalidConfig
from windlass.base.no_effect import NoEffect

WHAT = "command configuration"

_CONTAINER_KEYS = ("bind_mounts", "environment", "resources", "slurm", "pbs")
"""What of an experiment's layer of container defaults a command has too."""
_HINTS = {
    f'{ROOT}.resources: additionalProperties "slots_per_trial" not allowed': (
        '; a command has "slots"'
    ),
}
_DIGEST_LENGTH = 8


def _single_node(value: bool) -> bool:
    if not value:
        raise ValueError("must be true: a command runs on one node; use an experiment for several")
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


class CommandResources(MachineRequirements):
    """What the command gets, and its place in the queue."""

    slots: NonNegative = 1
    """0: an auxiliary command, on CPUs."""
    max_slots: Annotated[
        NonNegative | None, NoEffect("a command never holds more than its slots")
    ] = None
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


class CommandConfig(Section):
    """A command, complete and frozen. `to_json` is what the REST API shows as the command's `config`."""

    description: str
    """Shown to users. Without one: Command (eight letters)."""
    entrypoint: Annotated[Items[str], BeforeValidator(_arguments)] | None = None
    """One string is run by `/bin/sh -c`, several are the argument vector. None: only the startup hooks run."""
    resources: CommandResources = CommandResources()
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
    """Where it starts. None: the task's own directory, where the files that came with the command are."""
    debug: Annotated[bool, NoEffect("a command prints what its program does, nothing more")] = False
    """One file may serve experiments too."""
    idle_timeout: Annotated[
        Annotated[Duration, AfterValidator(_not_negative)] | None,
        NoEffect("a command ends when its program does"),
    ] = None
    """One file may serve notebooks too."""

    def to_json(self) -> dict[str, Any]:
        """Every key with its value or default, JSON-able, in a new dict."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CommandConfig:
        """Read back what `to_json` wrote. Raises `InvalidConfig`."""
        return _validate(document)


def complete_command(
    raw: Mapping[str, Any], *, defaults: ClusterDefaults, description: str | None = None
) -> CommandConfig:
    """Cluster defaults under `raw`, then every remaining default.

    `description` is used if the document gives none; without either it is made of a digest of the document. Raises
    `InvalidConfig` with all problems.
    """
    try:
        raw = plain(raw)
    except MalformedDocument as error:
        raise InvalidConfig([f"{ROOT}: {error}"], what=WHAT) from None
    if problems := first_problems(text_problems(normalise(raw), root=ROOT)):
        raise InvalidConfig(problems, what=WHAT)
    document = merge(normalise(raw), _cluster_layer(raw, defaults))
    refuse_masks(document, what=WHAT)
    if document.get("description") in (None, ""):
        document["description"] = description or f"Command ({_digest(raw)})"
    config = _validate(document)
    if problems := [*environment_problems(config.environment, root=f"{ROOT}.environment")]:
        raise InvalidConfig(problems, what=WHAT)
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


def _validate(document: Mapping[str, Any]) -> CommandConfig:
    try:
        return CommandConfig.model_validate(dict(document))
    except ValidationError as error:
        lines = [problem.line for problem in explain(error, CommandConfig, root=ROOT)]
        raise InvalidConfig([line + _HINTS.get(line, "") for line in lines], what=WHAT) from None
