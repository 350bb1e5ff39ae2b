"""What every way of running a container can do. Containers outlive the object that started them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, ExitRecord, IsolationKind

OnPull = Callable[[bool], None]
"""Told when the pull of an image begins (True), and when it is over."""


def ignored(pulls: bool) -> None:
    """An `OnPull` for callers that need not know."""


class StartRefused(Exception):
    """The container could not be set up; nothing was started."""

    def __init__(self, failure: ExitFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Runtime(Protocol):
    """Containers are named by their directory, which exists before `start` and is removed after `gc`."""

    @property
    def name(self) -> str:
        """As operators know it: `process`, or an engine with its version."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What an operator should know about how tasks run here."""
        ...

    @property
    def isolation(self) -> IsolationKind:
        """What keeps tasks apart here; the master may want better."""
        ...

    async def start(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, on_pull: OnPull = ignored
    ) -> bool:
        """Start it. True once its first process runs; False: it ended before, `wait` says how. Raises StartRefused."""
        ...

    async def reattach(self, place: ContainerDir) -> bool:
        """Take over what an earlier agent started. False: it does not run any more, `wait` says how it ended."""
        ...

    async def wait(self, place: ContainerDir) -> ExitRecord:
        """How it ended. Only after `start` or `reattach`."""
        ...

    async def node_port(self, place: ContainerDir, port: int) -> int:
        """Where on this machine's loopback a port of the container answers. Raises ConnectionError if nowhere."""
        ...

    def signal(self, place: ContainerDir, signum: int) -> None:
        """To the first process of the container. Nothing happens if it has ended."""
        ...

    def kill(self, place: ContainerDir) -> None:
        """SIGKILL to the whole tree; the exit follows, as 137."""
        ...

    async def sweep(self, known: frozenset[str]) -> None:
        """At the agent's start: remove what earlier agents left here, but for these containers."""
        ...

    def detach(self) -> None:
        """The agent ends: stop watching. What runs goes on, for the next agent to reattach."""
        ...

    async def gc(self, place: ContainerDir) -> None:
        """It has ended: release what is held outside its directory, and make sure that nothing of it is left."""
        ...
