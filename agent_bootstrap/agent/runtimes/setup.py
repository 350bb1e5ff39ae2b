"""A way of setting a task up for its supervisor: as a process of this machine, in an image by an engine, ...

Whatever the way, a supervisor runs the task, owns its output, and keeps how it ended; `process.ProcessRuntime` starts,
signals, adopts and buries supervisors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.base import OnPull, StartRefused, ignored
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, IsolationKind, RegistryCredentials

KILLED_EARLY = "killed before it was started"
NO_IMAGE = (
    "the task names no image, and this node runs tasks in containers only: set environment.image, "
    "or task_container_defaults.image in master.yaml"
)
LoginOf = Callable[[ContainerSpec], Awaitable[RegistryCredentials | None]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStart:
    """One start under way."""

    killed: asyncio.Event
    on_pull: OnPull = ignored

    @contextmanager
    def pulling(self) -> Iterator[None]:
        self.on_pull(True)
        try:
            yield
        finally:
            self.on_pull(False)


class Setup(Protocol):
    @property
    def name(self) -> str:
        """Of the runtime, as operators know it, with its version."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What an operator should know about how tasks run here."""
        ...

    @property
    def isolation(self) -> IsolationKind: ...

    async def prepare(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, start: ContainerStart
    ) -> None:
        """Everything up to spec.json, for the supervisor. May give up once it is killed. Raises StartRefused."""
        ...

    def node_port(self, place: ContainerDir, port: int) -> int:
        """See `Runtime`. Blocks."""
        ...

    def clear(self, place: ContainerDir) -> None:
        """It ended, or its supervisor did: nothing of it may be left outside its directory. Blocks. Raises OSError."""
        ...

    def sweep(self, known: frozenset[str]) -> None:
        """At the agent's start: remove what earlier agents of this machine left, but for these containers. Blocks."""
        ...


class ImageSetup(Setup, Protocol):
    """One whose tasks are containers."""

    def for_trial(self, image: str, layer: bytes) -> Setup:
        """The same for a container of the agent's own: `image`, of one layer, is here, and agent.yaml forbids no mount.

        Blocks. Raises StartRefused, OSError.
        """
        ...


class ByImage:
    """Tasks that ask for an image get a container, all others run as processes: `container_runtime: auto`."""

    def __init__(self, plain: Setup, images: Setup) -> None:
        self._plain, self._images = plain, images

    @property
    def name(self) -> str:
        return f"{self._plain.name}, {self._images.name}"

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._plain.notes, *self._images.notes)

    @property
    def isolation(self) -> IsolationKind:
        return self._plain.isolation

    async def prepare(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, start: ContainerStart
    ) -> None:
        options = spec.options
        way = self._images if options.image and not options.image_is_default else self._plain
        await way.prepare(place, spec, node, start)

    def node_port(self, place: ContainerDir, port: int) -> int:
        return self._images.node_port(place, port)

    def clear(self, place: ContainerDir) -> None:
        self._plain.clear(place)
        self._images.clear(place)

    def sweep(self, known: frozenset[str]) -> None:
        self._plain.sweep(known)
        self._images.sweep(known)


def killed_early() -> StartRefused:
    return StartRefused(ExitFailure.ABORTED, KILLED_EARLY)


async def unless_killed(killed: asyncio.Event, work: Awaitable[T]) -> T:
    """Its result, unless the container is killed first: then StartRefused."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(killed.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise killed_early()
        return working.result()
    finally:
        waiting.cancel()
        working.cancel()
