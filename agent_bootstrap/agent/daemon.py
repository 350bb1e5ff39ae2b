"""The agent: one connection to the master at a time, the containers of this machine, and what one says of the other.

The agent is truth for what runs here; the master is truth for what should. Containers outlive the agent's process:
their supervisors are detached, and the next agent on the same work_dir finds them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from agent_bootstrap.agent.container_dir import ContainerDirs, ContainerRecord
from agent_bootstrap.agent.containers import Container, Life
from agent_bootstrap.agent.credential import load_or_create
from agent_bootstrap.agent.environment import Node
from agent_bootstrap.agent.epoch import EpochMemory
from agent_bootstrap.agent.link import Link
from agent_bootstrap.agent.log_shipper import LogShipper
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.isolation import find_isolation
from agent_bootstrap.agent.runtimes.process import ProcessRuntime
from agent_bootstrap.agent.slots import detect_slots
from agent_bootstrap.protocol import (
    HEARTBEAT_S,
    Channel,
    ChannelClosed,
    ContainerReport,
    ContainerState,
    ExitFailure,
    ExitRecord,
    ForgetContainer,
    Heartbeat,
    Hello,
    KillContainer,
    Leaving,
    LogAck,
    Message,
    Refused,
    Shutdown,
    SignalContainer,
    Slot,
    StartContainer,
    Welcome,
)
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import InvalidArgument, PermissionDenied
from windlass.base.packages import VERSION
from windlass.base.processes import boot_id

FIRST_RETRY_S = 0.2
LAST_RETRY_S = 5.0
WELCOME_LIMIT_S = 60.0
REPORT_AGAIN_S = 10.0
"""An exit is told again this often until the master forgets the container."""
SHUTDOWN_LIMIT_S = 20.0
LOW_DISK_BYTES = 2 * 1024**3

log = logging.getLogger(__name__)

Connect = Callable[[str], Awaitable[Channel]]
"""Dials the master once, showing the agent's credential. Raises ChannelClosed when it cannot be reached,
PermissionDenied when it refuses us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnd:
    """Why the agent stopped by itself, and the exit code of its process."""

    reason: str
    code: int = 0


class _Ended(Exception):
    """Unwinds the agent's task group."""


@dataclass(slots=True)
class _Outbox:
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


class Agent:
    """Runs until it is cancelled (containers stay), refused, shut down, or its lifeline ends."""

    def __init__(
        self,
        options: AgentOptions,
        *,
        connect: Connect,
        clock: Clock | None = None,
        jitter: random.Random | None = None,
        lifeline_fd: int | None = None,
    ) -> None:
        self._options = options
        self._connect = connect
        self._clock = clock or SystemClock()
        self._jitter = jitter or random.Random()
        self._lifeline_fd = lifeline_fd
        self._dirs = ContainerDirs(options.work_dir)
        self._link = Link()
        self._outbox = _Outbox()
        self._containers: dict[str, Container] = {}
        self._slots: tuple[Slot, ...] = ()
        self._node: Node | None = None
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._end: AgentEnd | None = None
        self._leaving: Leaving | None = None
        self._retry_s = FIRST_RETRY_S
        self._tasks: asyncio.TaskGroup
        self._epoch: EpochMemory
        self._credential = ""
        self._runtime: ProcessRuntime

    async def run(self) -> AgentEnd:
        with self._dirs.locked():
            await self._prepare()
            try:
                async with asyncio.TaskGroup() as self._tasks:
                    self._watch_lifeline()
                    for record in await asyncio.to_thread(self._dirs.load):
                        self._tasks.create_task(self._add(record).run_known())
                    self._tasks.create_task(self._stay_connected())
                    await self._stop.wait()
                    raise _Ended
            except* _Ended:
                pass
            finally:
                if self._lifeline_fd is not None:
                    asyncio.get_running_loop().remove_reader(self._lifeline_fd)
                self._runtime.detach()
        return self._end or AgentEnd(reason="stopped")

    async def leave(self, at: datetime, reason: str) -> None:
        """Whoever watches this machine says that it goes at `at`. Told at once, and again on each connection."""
        if self._leaving is not None and self._leaving.at <= at:
            return
        log.warning("this machine goes at %s: %s", at.isoformat(timespec="seconds"), reason)
        self._leaving = Leaving(at=at, reason=reason)
        with suppress(ChannelClosed):  # then the next Hello tells it
            await self._link.send(self._leaving)

    async def _prepare(self) -> None:
        options = self._options
        self._epoch = EpochMemory(options.work_dir / "epoch.json")
        self._credential = await asyncio.to_thread(load_or_create, options.work_dir)
        isolation = await asyncio.to_thread(find_isolation, options.isolation, options.work_dir)
        self._slots = await asyncio.to_thread(detect_slots, options)
        self._runtime = ProcessRuntime(
            isolation, instance_id=options.instance_id, lifeline_fd=self._lifeline_fd
        )
        log.info("agent %s: %d slots", options.agent_id, len(self._slots))
        for note in self._runtime.notes:
            log.warning("%s", note)

    def _finish(self, reason: str, code: int = 0) -> None:
        log.info("agent ends: %s", reason)
        self._end = AgentEnd(reason=reason, code=code)
        self._stop.set()

    def _watch_lifeline(self) -> None:
        """The host process holds the other end: when it says or writes anything, this machine is over."""
        if self._lifeline_fd is not None:
            asyncio.get_running_loop().add_reader(self._lifeline_fd, self._lifeline_ended)

    def _lifeline_ended(self) -> None:
        if self._lifeline_fd is not None:
            asyncio.get_running_loop().remove_reader(self._lifeline_fd)
            self._finish("the host process of this instance ended", code=1)

    # --- the connection

    async def _stay_connected(self) -> None:
        while True:
            try:
                channel = await self._connect(self._credential)
                try:
                    await self._converse(channel)
                finally:
                    self._link.close()
                    await channel.close()
            except ChannelClosed as error:
                log.info("no connection to the master: %s", error)
            except PermissionDenied as error:
                if not self._containers:
                    self._finish(error.message, code=1)
                log.error("%s", error.message)
            await asyncio.sleep(self._retry_s * self._jitter.uniform(0.5, 1.0))
            self._retry_s = min(self._retry_s * 2, LAST_RETRY_S)

    async def _converse(self, channel: Channel) -> None:
        """One connection, to its end."""
        await channel.send(self._hello())
        try:
            async with asyncio.timeout(WELCOME_LIMIT_S):
                answer = await channel.receive()
        except TimeoutError:
            raise ChannelClosed("the master did not answer the greeting") from None
        if isinstance(answer, Refused):
            if not answer.retry:
                self._finish(f"refused by the master: {answer.reason}", code=1)
            raise ChannelClosed(f"refused: {answer.reason}")
        if not isinstance(answer, Welcome):
            raise ChannelClosed(f"expected a welcome, got {type(answer).__name__}")
        if not self._admit(answer.epoch):
            raise ChannelClosed(f"this master (epoch {answer.epoch}) has been succeeded")
        self._retry_s = FIRST_RETRY_S
        self._enter(answer)
        self._link.open(channel)
        await self._serve(channel)

    async def _serve(self, channel: Channel) -> None:
        """Listen, report and beat until one of them finds the connection lost: raises ChannelClosed.

        Not a task group: in Python 3.11 one that fails while it is being cancelled forgets the cancellation.
        """
        parts = [
            asyncio.create_task(part)
            for part in (self._listen(channel), self._report(channel), self._beat(channel))
        ]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        for part in ended:
            part.result()

    def _admit(self, epoch: int) -> bool:
        # Not in a thread: a new epoch is rare, and nothing may be obeyed or cancelled in between.
        try:
            return self._epoch.admit(epoch)
        except OSError as error:
            raise ChannelClosed(f"the master's epoch cannot be remembered: {error}") from error

    def _hello(self) -> Hello:
        # What happens from here on is told again once the master listens.
        self._outbox.take()
        return Hello(
            version=VERSION,
            agent_id=self._options.agent_id,
            pool=self._options.resource_pool,
            boot_id=boot_id(),
            hostname=socket.gethostname(),
            address=self._options.address,
            instance_id=self._options.instance_id,
            slots=self._slots,
            containers=tuple(container.report() for container in self._containers.values()),
            highest_epoch=self._epoch.highest,
            notes=self._notes(),
            labels=self._options.label,
            leaving=self._leaving,
        )

    def _enter(self, welcome: Welcome) -> None:
        """Take what the master says of the cluster and of the containers it wants kept."""
        options = self._options
        proxies = (
            ("HTTP_PROXY", options.http_proxy),
            ("HTTPS_PROXY", options.https_proxy),
            ("FTP_PROXY", options.ftp_proxy),
            ("NO_PROXY", options.no_proxy),
        )
        self._node = Node(
            master_url=options.container_url,
            agent_id=options.agent_id,
            cluster_id=welcome.cluster_id,
            master_id=welcome.master_id,
            slots=self._slots,
            instance_id=options.instance_id,
            proxies=tuple((key, value) for key, value in proxies if value),
        )
        for container in self._containers.values():
            if container.id in welcome.keep:
                container.shipper.resume(welcome.log_offsets.get(container.id))
            else:
                log.info("container %s is not wanted any more", container.id)
                container.forget()

    async def _report(self, channel: Channel) -> None:
        while True:
            for report in self._outbox.take():
                await channel.send(report)
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_AGAIN_S):
                    await self._outbox.filled.wait()
                    continue
            for container in self._containers.values():
                if container.life is Life.EXITED:
                    self._outbox.put(container.report())

    async def _beat(self, channel: Channel) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await channel.send(Heartbeat(disk_free_bytes=self._disk_free(), notes=self._notes()))

    def _notes(self) -> tuple[str, ...]:
        free = self._disk_free()
        if free is None or free >= LOW_DISK_BYTES:
            return self._runtime.notes
        low = f"{self._options.work_dir} has {free / 1024**3:.1f} GiB left: tasks may fail"
        return (*self._runtime.notes, low)

    def _disk_free(self) -> int | None:
        try:
            return shutil.disk_usage(self._options.work_dir).free
        except OSError:
            return None

    # --- what the master says

    async def _listen(self, channel: Channel) -> None:
        while True:
            message = await channel.receive()
            epoch = getattr(message, "epoch", None)
            if epoch is not None and epoch != self._epoch.highest and not self._admit(epoch):
                log.warning("%s of a succeeded master ignored", type(message).__name__)
                continue
            try:
                await self._obey(message)
            except InvalidArgument as error:
                log.error("%s: %s", type(message).__name__, error.message)

    async def _obey(self, message: Message) -> None:
        match message:
            case StartContainer():
                self._start(message)
            case KillContainer():
                self._kill(message)
            case SignalContainer(container_id=container_id, signal=signum):
                if container := self._containers.get(container_id):
                    container.signal(signum)
            case ForgetContainer(container_id=container_id):
                if container := self._containers.get(container_id):
                    container.forget()
            case LogAck(container_id=container_id, next_offset=offset):
                if container := self._containers.get(container_id):
                    container.shipper.acknowledge(offset)
            case Shutdown(reason=reason):
                self._tasks.create_task(self._shut_down(reason))
            case _:
                log.warning("unexpected message: %s", type(message).__name__)

    def _start(self, message: StartContainer) -> None:
        known = self._containers.get(message.spec.container_id)
        if known is not None:
            self._outbox.put(known.report())
            return
        if self._node is None:
            raise InvalidArgument("told to start a container before the welcome")
        container = self._add(ContainerRecord.of(message.spec))
        self._tasks.create_task(container.run_new(message.spec, self._node))

    def _kill(self, message: KillContainer) -> None:
        container = self._containers.get(message.container_id)
        if container is None:
            self._outbox.put(_unknown(message, self._clock))
        elif container.life is Life.EXITED:
            self._outbox.put(container.report())
        else:
            container.kill()

    async def _shut_down(self, reason: str) -> None:
        for container in self._containers.values():
            container.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_LIMIT_S):
                while not all(c.life is Life.EXITED for c in self._containers.values()):
                    self._changed.clear()
                    await self._changed.wait()
        self._finish(f"shut down by the master: {reason}")

    # --- containers

    def _add(self, record: ContainerRecord) -> Container:
        place = self._dirs.of(record.container_id)
        shipper = LogShipper(
            place,
            record,
            agent_id=self._options.agent_id,
            link=self._link,
            clock=self._clock,
        )
        container = Container(
            record,
            dirs=self._dirs,
            runtime=self._runtime,
            shipper=shipper,
            changed=self._on_change,
        )
        self._containers[record.container_id] = container
        return container

    def _on_change(self, container: Container) -> None:
        self._changed.set()
        if container.life is Life.FORGOTTEN:
            self._containers.pop(container.id, None)
            self._outbox.reports.pop(container.id, None)
        else:
            self._outbox.put(container.report())


def lifeline_from_environment() -> int | None:
    """The inherited descriptor of the host process, kept from children that are not told of it."""
    number = os.environ.pop("WINDLASS_LIFELINE_FD", "")
    if not number:
        return None
    os.set_inheritable(int(number), False)
    return int(number)


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
