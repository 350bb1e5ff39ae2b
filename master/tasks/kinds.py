"""The kinds of interactive tasks: all that makes one kind differ from another is its row here.

A new kind is a configuration model and a row. No other module of this package names a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


def _run_command(config: TaskConfig) -> Mapping[str, str]:
    return {ENTRYPOINT: as_json(list(config.entrypoint or ()))}


KINDS: Mapping[JobType, TaskKind] = {
    JobType.COMMAND: TaskKind(
        noun="command",
        config_name=WHAT,
        complete=complete_command,
        read=CommandConfig.from_json,
        launch=_run_command,
    ),
}
