"""The life of one container on this machine, from its directory to its oblivion.

STARTING ──> RUNNING ──> DRAINING ──> EXITED ──> FORGOTTEN
   └────────────────────────^           ^
   (ended before it ran)                └── all of its output is with the master
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum

from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerDirs, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.containers.log_shipper import LogShipper
from agent_bootstrap.agent.gpus.selection import batch_job
from agent_bootstrap.agent.runtimes.base import Runtime, StartRefused
from agent_bootstrap.protocol import (
    ContainerReport,
    ContainerSpec,
    ContainerState,
    ExitFailure,
    ExitRecord,
)

log = logging.getLogger(__name__)

DOUBT_S = 5.0
"""In a batch job, how long a bad end waits for that of the job itself before it is told."""


Admit = Callable[[ContainerSpec], Awaitable[None]]
"""Asked right before a container is started. Raises StartRefused."""


class Life(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    """It ended; its output is still on the way. The master hears of the exit afterwards."""
    EXITED = "exited"
    FORGOTTEN = "forgotten"


ALLOWED: dict[Life, frozenset[Life]] = {
    Life.STARTING: frozenset({Life.RUNNING, Life.DRAINING}),
    Life.RUNNING: frozenset({Life.DRAINING}),
    Life.DRAINING: frozenset({Life.EXITED}),
    Life.EXITED: frozenset({Life.FORGOTTEN}),
    Life.FORGOTTEN: frozenset(),
}
_REPORTED = {
    Life.STARTING: ContainerState.STARTING,
    Life.RUNNING: ContainerState.RUNNING,
    Life.EXITED: ContainerState.EXITED,
}
"""The other states change nothing for the master."""


class ContainerRun:
    """One container. `run()` is its whole life; cancelling it leaves the processes alone."""

    def __init__(
        self,
        record: ContainerRecord,
        *,
        dirs: ContainerDirs,
        runtime: Runtime,
        shipper: LogShipper,
        admit: Admit,
        changed: Callable[[ContainerRun], None],
    ) -> None:
        self.record = record
        self.shipper = shipper
        self.life = Life.STARTING
        self.exit: ExitRecord | None = None
        self._dirs = dirs
        self._place: ContainerDir = dirs.of(record.container_id)
        self._runtime = runtime
        self._admit = admit
        self._changed = changed
        self._reported = ContainerState.STARTING
        self._pulling = False
        self._is_killed = False
        self._forget = asyncio.Event()

    @property
    def id(self) -> str:
        return self.record.container_id

    @property
    def has_ended(self) -> bool:
        return self.life not in (Life.STARTING, Life.RUNNING)

    def report(self) -> ContainerReport:
        return ContainerReport(
            container_id=self.id,
            allocation_id=self.record.allocation_id,
            state=self._reported,
            pulling=self._pulling,
            exit=self.exit if self.life is Life.EXITED else None,
        )

    def signal(self, signum: int) -> None:
        if not self.has_ended:
            self._runtime.signal(self._place, signum)

    def kill(self) -> None:
        """SIGKILL to the whole tree; the exit is reported as any other."""
        self._is_killed = True
        if not self.has_ended:
            self._runtime.kill(self._place)

    def forget(self) -> None:
        """The master is done with it. Whatever still runs is killed, whatever was not shipped is dropped."""
        self.kill()
        self._forget.set()

    async def run_new(self, spec: ContainerSpec, node: NodeFacts) -> None:
        """Start it and stay with it until it is forgotten."""
        await self._stay(self._start(spec, node))

    async def run_known(self) -> None:
        """Take over from an earlier agent."""
        await self._stay(self._reattach())

    async def _stay(self, living: Awaitable[ExitRecord]) -> None:
        shipping = asyncio.create_task(self.shipper.run(), name=f"logs {self.id}")
        try:
            verdict = await self._verdict_of(living)
            self._become(Life.DRAINING)
            await self._drain()
            await self._doubt(verdict)
            self.exit = verdict
            self._become(Life.EXITED)
            await self._forget.wait()
        finally:
            shipping.cancel()
            await asyncio.gather(shipping, return_exceptions=True)
        try:
            await self._runtime.gc(self._place)
            await asyncio.to_thread(self._dirs.remove, self.id)
        except OSError as error:  # the next agent finds it, and the master does not want it
            log.warning("container %s not removed: %s", self.id, error)
        self._become(Life.FORGOTTEN)

    async def _start(self, spec: ContainerSpec, node: NodeFacts) -> ExitRecord:
        try:
            await asyncio.to_thread(self._place.create, self.record)
            await self._admit(spec)
            if await self._runtime.start(self._place, spec, node, self._on_pull):
                self._become(Life.RUNNING)
        except StartRefused as refusal:
            return _refused(refusal.failure, str(refusal))
        return await self._runtime.wait(self._place)

    def _on_pull(self, pulls: bool) -> None:
        self._pulling = pulls
        self._changed(self)

    async def _reattach(self) -> ExitRecord:
        decided = self._place.verdict()
        if decided is not None:
            return decided
        if await self._runtime.reattach(self._place):
            self._become(Life.RUNNING)
        return await self._runtime.wait(self._place)

    async def _verdict_of(self, living: Awaitable[ExitRecord]) -> ExitRecord:
        """How it ended, also when we could not do our part. Written down before it is told."""
        try:
            verdict = await living
        except Exception as error:
            log.exception("container failed: %s", self.id)
            self._runtime.kill(self._place)
            problem = error.strerror if isinstance(error, OSError) else type(error).__name__
            failure = (
                ExitFailure.ABORTED if self.life is Life.STARTING else ExitFailure.AGENT_FAILED
            )
            verdict = _refused(failure, f"the agent could not run the task: {problem}")
        try:
            await asyncio.to_thread(self._place.write_verdict, verdict)
        except OSError as error:
            log.warning("exit of %s not written down: %s", self.id, error.strerror)
        return verdict

    async def _doubt(self, verdict: ExitRecord) -> None:
        """A batch system that ends a job signals all of its processes: this agent too, which then says nothing.

        How such a job ended, and that it was not the task's failure, the master hears from the batch system.
        """
        if verdict.exit_code and not self._is_killed and batch_job(os.environ):
            with suppress(TimeoutError):
                async with asyncio.timeout(DOUBT_S):
                    await self._forget.wait()

    async def _drain(self) -> None:
        """Until the master has all output, or does not want it any more."""
        waiting = [
            asyncio.create_task(self.shipper.drain()),
            asyncio.create_task(self._forget.wait()),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _become(self, life: Life) -> None:
        if life not in ALLOWED[self.life]:
            raise RuntimeError(f"container {self.id} cannot go from {self.life} to {life}")
        self.life = life
        self._reported = _REPORTED.get(life, self._reported)
        log.info("container %s is %s", self.id, life)
        self._changed(self)


def _refused(failure: ExitFailure, message: str) -> ExitRecord:
    return ExitRecord(exit_code=None, failure=failure, message=message, at=datetime.now(UTC))
