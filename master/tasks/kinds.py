"""The kinds of interactive tasks: all that makes one kind differ from another is its row here.

A new kind is a configuration model and a row. No other module of this package names a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Protocol, TypeAlias

from master.allocations.task_environment import as_json
from master.core.expconf import ClusterDefaults
from master.core.expconf.command import WHAT, CommandConfig, CommandResources, complete_command
from master.core.jobs import JobType

TaskConfig: TypeAlias = CommandConfig
"""The configuration of any kind: all of them have at least the keys of a command."""
TaskResources: TypeAlias = CommandResources

ENTRYPOINT = "DET_COMMAND_ENTRYPOINT"
"""The variable with the argument vector, a JSON list: one word is run by a shell, several are executed as they are."""


class Complete(Protocol):
    def __call__(
        self, raw: Mapping[str, Any], *, defaults: ClusterDefaults, description: str | None = None
    ) -> TaskConfig:
        """Cluster defaults under `raw`, then every remaining default. Raises InvalidConfig."""
        ...


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


class Readiness(Enum):
    """When users are told that a running task serves them."""

    STARTED = "started"
    """As soon as it runs."""
    REPORTED = "reported"
    """When it says so: `POST /api/v1/allocations/{id}/ready`. Launch scripts do when they see a line of the service."""


def _never(config: TaskConfig) -> None:
    """Tasks of this kind end by themselves, or when a user ends them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    noun: str
    """In texts for people."""
    config_name: str
    """What an error calls its configuration."""
    complete: Complete
    read: Callable[[Mapping[str, Any]], TaskConfig]
    """From what its `to_json` wrote."""
    launch: Callable[[TaskConfig], Mapping[str, str]]
    """Variables that tell the launcher what to run."""
    services: tuple[KindPort, ...] = ()
    readiness: Readiness = Readiness.STARTED
    idle_timeout: Callable[[TaskConfig], timedelta | None] = _never
    """How long a running task may be without activity before it is ended; None: for ever."""

    launches_machines: bool = True
    """False: no machine is launched for it; it waits for one that is there anyway."""
    interactive: bool = True
    """Users start and see it; otherwise it belongs to the experiment that its id begins with."""

    def unique_ports(self) -> Mapping[str, int]:
        return {service.variable: service.lowest_port for service in self.services}


def _run_command(config: TaskConfig) -> Mapping[str, str]:
    return {ENTRYPOINT: as_json(list(config.entrypoint or ()))}


KINDS: Mapping[JobType, TaskKind] = {
    JobType.COMMAND: TaskKind(
        noun="command",
        config_name=WHAT,
        complete=complete_command,
        read=CommandConfig.from_json,
        launch=_run_command,
        services=(),
        readiness=Readiness.STARTED,
        idle_timeout=_never,
    ),
    JobType.CHECKPOINT_GC: TaskKind(
        noun="checkpoint collection",
        config_name=WHAT,
        complete=complete_command,
        read=CommandConfig.from_json,
        launch=lambda _: {},
        launches_machines=False,
        interactive=False,
    ),
}
