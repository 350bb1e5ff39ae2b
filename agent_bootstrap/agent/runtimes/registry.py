"""The ways of running a container on this machine, by name: `container_runtime` in agent.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from agent_bootstrap.agent.link import Link
from agent_bootstrap.agent.logins import Logins
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.probe import find_isolation
from agent_bootstrap.agent.runtimes.process import ProcessRuntime
from agent_bootstrap.agent.runtimes.task_tree import Ground
from windlass.base.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSetup:
    """What a runtime may need to know of the agent."""

    options: AgentOptions
    lifeline_fd: int | None = None
    """When it ends, so must everything that was started."""
    logins: Logins = field(default_factory=lambda: Logins(Link()))
    """Where a runtime gets the registry credentials of a task; asked only for a task that has some."""


RuntimeFactory = Callable[[RuntimeSetup], Runtime]
"""Blocks for as long as it takes to see whether it works here. Raises InvalidConfig with the reason if not."""


def _process(setup: RuntimeSetup) -> Runtime:
    options = setup.options
    ground = Ground(
        isolation=find_isolation(options.isolation, options.work_dir),
        rules=options.host_paths,
    )
    return ProcessRuntime(
        ground,
        instance_id=options.instance_id,
        lifeline_fd=setup.lifeline_fd,
    )


RUNTIMES: Mapping[str, RuntimeFactory] = MappingProxyType({"process": _process})


def open_runtime(
    name: str, setup: RuntimeSetup, runtimes: Mapping[str, RuntimeFactory] = RUNTIMES
) -> Runtime:
    """Raises InvalidConfig for a name that is not there, or does not work on this machine."""
    factory = runtimes.get(name)
    if factory is None:
        raise InvalidConfig(
            [f'container_runtime: "{name}" is not available, write one of: {", ".join(runtimes)}'],
            what="agent options",
        )
    return factory(setup)
