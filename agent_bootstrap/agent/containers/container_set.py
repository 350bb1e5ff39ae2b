"""The containers of this machine, and what the master still has to hear of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from agent_bootstrap.agent.connection.link import MasterLink
from agent_bootstrap.agent.containers.container import ContainerRun, Life
from agent_bootstrap.agent.containers.directory import ContainerDirs, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.containers.log_shipper import LogShipper
from agent_bootstrap.agent.metadata.tasks import MetadataOfTasks
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.protocol import (
    ContainerReport,
    ContainerSpec,
    ContainerState,
    ExitFailure,
    ExitRecord,
    KillContainer,
)
from windlass.base.clock import Clock

END_LIMIT_S = 20.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReportQueue:
    """Reports that the master has not heard on this connection."""

    reports: dict[str, ContainerReport] = field(default_factory=dict)
    filled: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, report: ContainerReport) -> None:
        self.reports[report.container_id] = report
        self.filled.set()

    def take(self) -> list[ContainerReport]:
        taken = list(self.reports.values())
        self.reports.clear()
        self.filled.clear()
        return taken


class ContainerSet:
    """They outlive the agent's process: `tasks` only watch them."""

    def __init__(
        self,
        dirs: ContainerDirs,
        runtime: Runtime,
        *,
        metadata: MetadataOfTasks,
        agent_id: str,
        link: MasterLink,
        clock: Clock,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.outbox = ReportQueue()
        self._dirs = dirs
        self._runtime = runtime
        self._metadata = metadata
        self._agent_id = agent_id
        self._link = link
        self._clock = clock
        self._tasks = tasks
        self._containers: dict[str, ContainerRun] = {}
        self._changed = asyncio.Event()

    def is_running(self, container_id: str) -> bool:
        """It is here, and has not ended."""
        container = self._containers.get(container_id)
        return container is not None and not container.has_ended

    async def node_port(self, container_id: str, port: int) -> int:
        """See `Runtime`."""
        if not self.is_running(container_id):
            raise ConnectionError("the task does not run here any more")
        return await self._runtime.node_port(self._dirs.of(container_id), port)

    def __bool__(self) -> bool:
        return bool(self._containers)

    @property
    def has_work(self) -> bool:
        """Something runs. What has ended, and is yet to be told, is no work."""
        return any(not container.has_ended for container in self._containers.values())

    def get(self, container_id: str) -> ContainerRun | None:
        return self._containers.get(container_id)

    def reports(self) -> tuple[ContainerReport, ...]:
        return tuple(container.report() for container in self._containers.values())

    def report_exits_again(self) -> None:
        """Until the master forgets them."""
        for container in self._containers.values():
            if container.life is Life.EXITED:
                self.outbox.put(container.report())

    async def take_over(self) -> None:
        """What an earlier agent has left on disk."""
        records = await asyncio.to_thread(self._dirs.load)
        await self._runtime.sweep(frozenset(record.container_id for record in records))
        for record in records:
            self._tasks.create_task(self._add(record).run_known())

    def keep_only(self, wanted: Collection[str], log_offsets: Mapping[str, int]) -> None:
        """What the master wants kept, and where it wants the logs to go on."""
        for container in self._containers.values():
            if container.id in wanted:
                container.shipper.resume(log_offsets.get(container.id))
            else:
                log.info("container %s is not wanted any more", container.id)
                container.forget()

    def start(self, spec: ContainerSpec, node: NodeFacts) -> None:
        """One that is known is told again instead."""
        known = self._containers.get(spec.container_id)
        if known is not None:
            self.outbox.put(known.report())
            return
        container = self._add(ContainerRecord.of(spec))
        self._tasks.create_task(container.run_new(self._metadata.given_to(spec), node))

    def kill(self, message: KillContainer) -> None:
        container = self._containers.get(message.container_id)
        if container is None:
            self.outbox.put(_unknown(message, self._clock))
        elif container.life is Life.EXITED:
            self.outbox.put(container.report())
        else:
            container.kill()

    async def end_all(self) -> None:
        """Kill everything and wait for the ends, though not for ever."""
        for container in self._containers.values():
            container.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_LIMIT_S):
                while not all(c.life is Life.EXITED for c in self._containers.values()):
                    self._changed.clear()
                    await self._changed.wait()

    def _add(self, record: ContainerRecord) -> ContainerRun:
        shipper = LogShipper(
            self._dirs.of(record.container_id),
            record,
            agent_id=self._agent_id,
            link=self._link,
            clock=self._clock,
        )
        container = ContainerRun(
            record,
            dirs=self._dirs,
            runtime=self._runtime,
            shipper=shipper,
            admit=self._metadata.admit,
            changed=self._on_change,
        )
        self._containers[record.container_id] = container
        return container

    def _on_change(self, container: ContainerRun) -> None:
        self._changed.set()
        if container.life is Life.FORGOTTEN:
            self._containers.pop(container.id, None)
            self.outbox.reports.pop(container.id, None)
        else:
            self.outbox.put(container.report())


def _unknown(message: KillContainer, clock: Clock) -> ContainerReport:
    return ContainerReport(
        container_id=message.container_id,
        allocation_id=message.allocation_id,
        state=ContainerState.EXITED,
        exit=ExitRecord(
            exit_code=None,
            failure=ExitFailure.ABORTED,
            message="the agent does not know this container",
            at=clock.now(),
        ),
    )
