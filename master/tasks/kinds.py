"""The kinds of interactive tasks: all that makes one kind differ from another is its row here.

A new kind is a configuration model, a row, and a launch script. No other module of this package names a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import cast

from master.allocations.task_environment import as_json
from master.config.sections import Ssh
from master.core.expconf.interactive import InteractiveConfig, TaskConfig
from master.core.expconf.kinds import (
    CommandConfig,
    GenericConfig,
    NotebookConfig,
    ShellConfig,
    TensorboardConfig,
)
from master.core.jobs import JobType
from master.tasks import tensorboards
from master.tasks.shell_keys import new_keys, shell_files
from rm_backends.base import BindMount, TaskFile
from windlass.base.formats.json_types import JsonMapping

ENTRYPOINT = "DET_COMMAND_ENTRYPOINT"
"""The variable with the argument vector, a JSON list: one word is run by a shell, several are executed as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPort:
    """A port that tasks of a kind serve, and that the master's proxy leads to.

    Each task has a number of its own in the whole cluster: processes and containers with the host's network share one.
    """

    variable: str
    """Tells the task which port it is."""
    lowest_port: int
    tcp: bool = False
    """A plain stream, not HTTP."""
    unauthenticated: bool = False
    """The proxy asks nobody who they are: the service does."""
    has_token: bool = False
    """Whoever has a token that is good for this task alone may use it too."""


class Readiness(Enum):
    """When users are told that a running task serves them."""

    STARTED = "started"
    """As soon as it runs."""
    REPORTED = "reported"
    """When it says so: `POST /api/v1/allocations/{id}/ready`. Launch scripts do when they see a line of the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """What the launch of a task may depend on."""

    config: TaskConfig
    details: JsonMapping
    """With the secrets of now."""
    token: str
    """Of its service (`Service.has_token`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a container of a kind is given beyond what every task is."""

    variables: Mapping[str, str] = field(default_factory=dict)
    files: tuple[TaskFile, ...] = ()


def _never(config: TaskConfig) -> timedelta | None:
    """Tasks of this kind end by themselves, or when a user ends them."""


def _as_configured(config: TaskConfig) -> timedelta | None:
    return cast("InteractiveConfig", config).idle_timeout or None


def _nothing(options: Ssh) -> JsonMapping:
    return {}


def _none_shown(details: JsonMapping) -> Collection[int]:
    return ()


def _no_mounts(details: JsonMapping) -> Iterable[BindMount]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    model: type[TaskConfig]
    """Its configuration, which also names it."""
    launch: Callable[[LaunchFacts], Launch]
    make_details: Callable[[Ssh], JsonMapping] = _nothing
    """What is made once for each task and kept with it. For a thread: keys take their time."""
    mounts: Callable[[JsonMapping], Iterable[BindMount]] = _no_mounts
    """What of the node it sees beyond its configuration, by its details."""
    shows: Callable[[JsonMapping], Collection[int]] = _none_shown
    """Ids of the experiments that it shows, by its details: whoever may not see them does not see it."""
    services: tuple[KindPort, ...] = ()
    readiness: Readiness = Readiness.STARTED
    idle_timeout: Callable[[TaskConfig], timedelta | None] = _never
    """How long a running task may be without activity before it is ended; None: for ever."""

    always_aux: bool = False
    """It never holds a slot, whatever its configuration asks for."""
    launches_machines: bool = True
    """False: no machine is launched for it; it waits for one that is there anyway."""
    interactive: bool = True
    """Users start and see it; otherwise it belongs to the experiment that its id begins with."""
    can_pause: bool = False
    """It may be paused and preempted, and goes on later with another allocation, on several nodes if it says so."""
    called: str = ""
    """Where its configuration is that of another kind."""

    @property
    def noun(self) -> str:
        """In texts for people."""
        return self.called or self.model.noun

    def unique_ports(self) -> Mapping[str, int]:
        return {service.variable: service.lowest_port for service in self.services}


def _run_command(facts: LaunchFacts) -> Launch:
    return Launch(variables={ENTRYPOINT: as_json(list(facts.config.entrypoint or ()))})


def _run_sshd(facts: LaunchFacts) -> Launch:
    return Launch(files=tuple(shell_files(facts.details)))


def _run_jupyter(facts: LaunchFacts) -> Launch:
    return Launch(
        variables={
            "NOTEBOOK_CONFIG": as_json(facts.config.to_json()),
            "NOTEBOOK_IDLE_TYPE": cast("NotebookConfig", facts.config).notebook_idle_type,
            "DET_NOTEBOOK_TOKEN": facts.token,
        }
    )


def _run_tensorboard(facts: LaunchFacts) -> Launch:
    return Launch(
        variables={
            **tensorboards.s3_variables(facts.details),
            "TENSORBOARD_ARGS": as_json(
                list(cast("TensorboardConfig", facts.config).tensorboard_args)
            ),
        },
        files=(tensorboards.task_file(facts.details),),
    )


KINDS: Mapping[JobType, TaskKind] = {
    JobType.COMMAND: TaskKind(model=CommandConfig, launch=_run_command),
    JobType.SHELL: TaskKind(
        model=ShellConfig,
        launch=_run_sshd,
        make_details=new_keys,
        services=(
            KindPort(variable="SHELL_PORT", lowest_port=3200, tcp=True, unauthenticated=True),
        ),
        readiness=Readiness.REPORTED,
    ),
    JobType.NOTEBOOK: TaskKind(
        model=NotebookConfig,
        launch=_run_jupyter,
        services=(KindPort(variable="NOTEBOOK_PORT", lowest_port=2900, has_token=True),),
        readiness=Readiness.REPORTED,
        idle_timeout=_as_configured,
    ),
    JobType.GENERIC: TaskKind(model=GenericConfig, launch=_run_command, can_pause=True),
    JobType.TENSORBOARD: TaskKind(
        model=TensorboardConfig,
        launch=_run_tensorboard,
        mounts=tensorboards.mounts_of,
        shows=tensorboards.experiments_of,
        services=(KindPort(variable="TENSORBOARD_PORT", lowest_port=2600),),
        readiness=Readiness.REPORTED,
        idle_timeout=_as_configured,
        always_aux=True,
    ),
    JobType.CHECKPOINT_GC: TaskKind(
        model=CommandConfig,
        called="checkpoint collection",
        launch=lambda _: Launch(),
        launches_machines=False,
        interactive=False,
    ),
}
