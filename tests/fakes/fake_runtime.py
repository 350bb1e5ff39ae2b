"""A runtime without processes: what an agent sees of one, and what outlives the agent on the machine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.base import OnPull, StartRefused, ignored
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, ExitRecord, IsolationKind

SIGKILL = 9


@dataclass(slots=True)
class FakeTask:
    """Entrypoints: ("exit", code) ends at once, ("forever",) by a signal, ("stubborn",) by a kill only."""

    program: str
    exit_code: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, code: int) -> None:
        if self.exit_code is None:
            self.exit_code = code
            self.ended.set()

    def signal(self, signum: int) -> None:
        if signum == SIGKILL or self.program != "stubborn":
            self.end(128 + signum)


@dataclass(slots=True)
class FakeRuntime:
    """Satisfies `Runtime`. Hand the same `machine` to the next one, and it finds what runs."""

    machine: dict[Path, FakeTask] = field(default_factory=dict)
    notes: tuple[str, ...] = ("nothing really runs here",)
    pulled: asyncio.Event | None = None
    """Starts wait for it, as for an image."""
    _killed: set[Path] = field(default_factory=set)

    @property
    def name(self) -> str:
        return "fake"

    @property
    def isolation(self) -> IsolationKind:
        return IsolationKind.DIRECTORY

    async def start(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, on_pull: OnPull = ignored
    ) -> bool:
        if place.path in self._killed:
            raise StartRefused(ExitFailure.ABORTED, "killed before it was started")
        if not spec.entrypoint:
            raise StartRefused(ExitFailure.TASK_ERROR, "the entrypoint is empty")
        if self.pulled is not None:
            on_pull(True)
            await self.pulled.wait()
            on_pull(False)
        task = self.machine[place.path] = FakeTask(spec.entrypoint[0])
        if task.program == "exit":
            task.end(int(spec.entrypoint[1]))
        return True

    async def reattach(self, place: ContainerDir) -> bool:
        task = self.machine.get(place.path)
        if task is not None and place.was_killed():
            task.signal(SIGKILL)
        return task is not None and not task.ended.is_set()

    async def wait(self, place: ContainerDir) -> ExitRecord:
        now = datetime.now(UTC)
        task = self.machine.get(place.path)
        if task is None:
            return ExitRecord(
                exit_code=None, failure=ExitFailure.ABORTED, message="never started", at=now
            )
        await task.ended.wait()
        return ExitRecord(exit_code=task.exit_code, at=now)

    async def node_port(self, place: ContainerDir, port: int) -> int:
        return port

    def signal(self, place: ContainerDir, signum: int) -> None:
        if (task := self.machine.get(place.path)) is not None:
            task.signal(signum)

    def kill(self, place: ContainerDir) -> None:
        self._killed.add(place.path)
        place.mark_killed()
        self.signal(place, SIGKILL)

    async def sweep(self, known: frozenset[str]) -> None:
        pass

    def detach(self) -> None:
        pass

    async def gc(self, place: ContainerDir) -> None:
        self.machine.pop(place.path, None)
        self._killed.discard(place.path)
