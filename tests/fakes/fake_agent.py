"""A simulated agent: speaks the real protocol over a Channel, and pretends to run containers.

Deterministic: ids, boot ids and times come in; nothing is drawn. Containers live on through lost connections, as real
ones outlive their agent. What a container does is a program: a coroutine that returns an exit code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agent_bootstrap.protocol import (
    HEARTBEAT_S,
    AgentShutdown,
    Channel,
    ChannelClosed,
    ContainerReport,
    ContainerSpec,
    ContainerState,
    ExitFailure,
    ExitRecord,
    ForgetContainer,
    Heartbeat,
    Hello,
    JoinRefused,
    KillContainer,
    Leaving,
    LogAck,
    LogBatch,
    LogEntry,
    Message,
    RegistryLoginRequest,
    SignalContainer,
    Slot,
    SlotKind,
    StartContainer,
    Staying,
    Welcome,
)
from windlass.base.clock import Clock

Dial = Callable[[], Awaitable[Channel]]
"""Opens a connection to the master. Raises ChannelClosed if nobody answers."""
Program = Callable[[ContainerSpec], Awaitable[int]]
SIGKILL_EXIT = 137


async def run_until_told(spec: ContainerSpec) -> int:
    """The default program: ends by `FakeAgent.exit` or by a kill only."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def run_for(seconds: float, exit_code: int = 0) -> Program:
    """A program that ends by itself."""

    async def program(spec: ContainerSpec) -> int:
        await asyncio.sleep(seconds)
        return exit_code

    return program


@dataclass(slots=True)
class FakeContainer:
    spec: ContainerSpec
    state: ContainerState = ContainerState.STARTING
    exit: ExitRecord | None = None
    pulling: bool = False
    task: asyncio.Task[None] | None = None
    log_offset: int = 0

    @property
    def id(self) -> str:
        return self.spec.container_id


@dataclass(slots=True)
class FakeAgent:
    """`run` is its life. The other calls are what happens to it; they may come at any time."""

    agent_id: str
    dial: Dial
    clock: Clock
    pool: str = "default"
    slots: int = 4
    devices: tuple[Slot, ...] = ()
    """Instead of artificial ones."""
    address: str = ""
    own_address: str = ""
    site_node: str = ""
    boot_id: str = "boot-1"
    instance_id: str | None = None
    labels: tuple[str, ...] = ()
    ends_at: datetime | None = None
    leaving: Leaving | None = None
    takes_work: bool = True
    program: Program = run_until_told
    start_s: float = 0.0
    pull_s: float = 0.0
    """From StartContainer to RUNNING."""
    reconnect_s: float = 1.0
    heartbeat_s: float = HEARTBEAT_S
    protocol: int = 1
    container_runtime: str = "process"
    runs_trial_classes: bool | None = None
    process_user: str = ""
    carries_streams: bool = False
    containers: dict[str, FakeContainer] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    """Container ids in the order of their first starts: a container that is started twice is twice in it."""
    received: list[Message] = field(default_factory=list)
    refused: JoinRefused | None = None
    connected: bool = False
    highest_epoch: int = 0
    unacked: list[LogBatch] = field(default_factory=list)
    """Log batches that the master has not stored yet: sent again on every connection."""
    _online: bool = True
    _dead: bool = False
    _channel: Channel | None = None
    _outgoing: deque[Message] = field(default_factory=deque)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: asyncio.TaskGroup | None = None

    # Its life

    async def run(self) -> None:
        """Connect, and again after each lost connection, until it dies or is refused for good."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                while not self._dead:
                    await self.until(lambda: self._online or self._dead)
                    await self._connect_once()
                    # A task group that fails as it is cancelled only says why it failed (Python 3.11 and 3.12).
                    if (task := asyncio.current_task()) is not None and task.cancelling():
                        raise asyncio.CancelledError
                    if not self._dead:
                        await asyncio.sleep(self.reconnect_s)
                self._stop_all()
        finally:
            self._tasks = None
            self._note_change()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once `condition` holds; looked at after every change of this agent."""
        while not condition():
            await self._changed.wait()

    # What happens to it

    def exit(
        self,
        container_id: str,
        code: int = 0,
        failure: ExitFailure | None = None,
        message: str = "",
    ) -> None:
        """The container's process ends."""
        container = self.containers[container_id]
        if container.exit is None:
            self._finish(container, code, failure, message)

    async def drop(self) -> None:
        """The connection breaks; the agent comes back by itself."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
            self.connected = False

    async def unplug(self) -> None:
        """The connection breaks, and there is no network until `plug_in`."""
        self._online = False
        await self.drop()

    def plug_in(self) -> None:
        self._online = True
        self._note_change()

    async def lose_memory(self, *, boot_id: str | None = None) -> None:
        """All containers end without a trace; with a new boot id this is a reboot."""
        self._stop_all()
        self.containers.clear()
        self.boot_id = boot_id or self.boot_id
        await self.drop()

    async def die(self) -> None:
        """The host is gone, with everything on it, for good."""
        self._dead = True
        self._stop_all()
        await self.drop()
        self._note_change()

    def log(self, container_id: str, *lines: str) -> None:
        """The container writes lines to its standard output."""
        container = self.containers[container_id]
        now = self.clock.now()
        size = sum(len(line) + 20 for line in lines)
        batch = LogBatch(
            container_id=container_id,
            allocation_id=container.spec.allocation_id,
            task_id=container.spec.task_id,
            agent_id=self.agent_id,
            first_offset=container.log_offset,
            next_offset=container.log_offset + size,
            entries=tuple(LogEntry(timestamp=now, stdtype="stdout", log=line) for line in lines),
        )
        container.log_offset = batch.next_offset
        self.unacked.append(batch)
        self._say(batch)

    def beat(self, heartbeat: Heartbeat) -> None:
        """Say something besides the regular heartbeats."""
        self._say(heartbeat)

    def announce(self, leaving: Leaving) -> None:
        """Its machine goes."""
        self.leaving = leaving
        self._say(leaving)

    def stay(self) -> None:
        """Its machine does not go after all."""
        self.leaving = None
        self._say(Staying())

    def ask(self, request: RegistryLoginRequest) -> None:
        """It is about to pull an image."""
        self._say(request)

    # One connection

    async def _connect_once(self) -> None:
        try:
            self._channel = await self.dial()
            await self._converse(self._channel)
        except* ChannelClosed:
            pass
        finally:
            self._channel = None
            self.connected = False
            self._note_change()

    async def _converse(self, channel: Channel) -> None:
        await channel.send(self._hello())
        answer = await channel.receive()
        self.received.append(answer)
        if isinstance(answer, JoinRefused):
            self.refused = answer
            self._dead = self._dead or not answer.retry
            await channel.close()
            return
        assert isinstance(answer, Welcome), answer
        if not self._obeys(answer.epoch):
            await channel.close()
            return
        self._keep_only(answer.keep)
        self._outgoing.clear()
        self._outgoing.extend(self._reports())
        self._outgoing.extend(self.unacked)
        self._woken.set()
        self.connected = True
        self._note_change()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write(channel))
            tasks.create_task(self._beat_regularly())
            while True:
                self._handle(await channel.receive())

    def _hello(self) -> Hello:
        return Hello(
            protocol=self.protocol,
            version="0.0-fake",
            agent_id=self.agent_id,
            pool=self.pool,
            boot_id=self.boot_id,
            hostname=self.agent_id,
            address=self.address,
            own_address=self.own_address,
            site_node=self.site_node,
            instance_id=self.instance_id,
            slots=self.devices
            or tuple(
                Slot(id=n, kind=SlotKind.ARTIFICIAL, uuid=f"{self.agent_id}-{n}")
                for n in range(self.slots)
            ),
            containers=self._reports(),
            highest_epoch=self.highest_epoch,
            labels=self.labels,
            ends_at=self.ends_at,
            leaving=self.leaving,
            takes_work=self.takes_work,
            container_runtime=self.container_runtime,
            runs_trial_classes=self.runs_trial_classes,
            process_user=self.process_user,
            carries_streams=self.carries_streams,
        )

    def _reports(self) -> tuple[ContainerReport, ...]:
        """How every container is now. In the Hello, and again after the Welcome: one may have ended in between."""
        return tuple(self._report(container) for container in self.containers.values())

    async def _write(self, channel: Channel) -> None:
        while True:
            while self._outgoing:
                await channel.send(self._outgoing.popleft())
            self._woken.clear()
            await self._woken.wait()

    async def _beat_regularly(self) -> None:
        while True:
            await asyncio.sleep(self.heartbeat_s)
            self._say(Heartbeat())

    def _handle(self, message: Message) -> None:
        self.received.append(message)
        match message:
            case StartContainer(epoch=epoch, spec=spec) if self._obeys(epoch):
                self._start(spec)
            case KillContainer(epoch=epoch) if self._obeys(epoch):
                self._kill(message)
            case SignalContainer(epoch=epoch, container_id=container_id) if self._obeys(epoch):
                self.exit(container_id, 128 + message.signal)
            case ForgetContainer(epoch=epoch, container_id=container_id) if self._obeys(epoch):
                self.containers.pop(container_id, None)
            case LogAck(container_id=container_id, next_offset=offset):
                self.unacked = [
                    batch
                    for batch in self.unacked
                    if batch.container_id != container_id or batch.next_offset > offset
                ]
            case AgentShutdown(epoch=epoch) if self._obeys(epoch):
                self._dead = True
                raise ChannelClosed("told to shut down")
            case _:
                pass
        self._note_change()

    def _obeys(self, epoch: int) -> bool:
        if epoch < self.highest_epoch:
            return False
        self.highest_epoch = epoch
        return True

    # Containers

    def _start(self, spec: ContainerSpec) -> None:
        container = self.containers.get(spec.container_id)
        if container is None:
            self._check_slots(spec)
            container = FakeContainer(spec, pulling=self.pull_s > 0)
            self.containers[spec.container_id] = container
            self.started.append(spec.container_id)
            assert self._tasks is not None
            container.task = self._tasks.create_task(self._live(container))
        self._say(self._report(container))

    def _check_slots(self, spec: ContainerSpec) -> None:
        """The master must never give a slot to two containers at a time."""
        asked = set(spec.slot_ids)
        assert asked <= set(range(self.slots)), spec
        for other in self.containers.values():
            assert other.exit is not None or not asked & set(other.spec.slot_ids), (spec, other)

    async def _live(self, container: FakeContainer) -> None:
        if container.pulling:
            await asyncio.sleep(self.pull_s)
            container.pulling = False
            self._say(self._report(container))
        await asyncio.sleep(self.start_s)
        container.state = ContainerState.RUNNING
        self._say(self._report(container))
        self._note_change()
        code = await self.program(container.spec)
        self._finish(container, code, None)

    def _finish(
        self,
        container: FakeContainer,
        code: int,
        failure: ExitFailure | None,
        message: str = "",
    ) -> None:
        if container.task is not None and container.task is not asyncio.current_task():
            container.task.cancel()
        container.state = ContainerState.EXITED
        container.exit = ExitRecord(
            exit_code=code, failure=failure, message=message, at=self.clock.now()
        )
        self._say(self._report(container))
        self._note_change()

    def _kill(self, message: KillContainer) -> None:
        container = self.containers.get(message.container_id)
        if container is not None:
            self.exit(container.id, SIGKILL_EXIT)
            return
        record = ExitRecord(exit_code=None, failure=ExitFailure.ABORTED, at=self.clock.now())
        self._say(
            ContainerReport(
                container_id=message.container_id,
                allocation_id=message.allocation_id,
                state=ContainerState.EXITED,
                exit=record,
            )
        )

    def _keep_only(self, keep: Sequence[str]) -> None:
        for container_id in [c for c in self.containers if c not in keep]:
            container = self.containers.pop(container_id)
            if container.task is not None:
                container.task.cancel()

    def _stop_all(self) -> None:
        for container in self.containers.values():
            if container.task is not None:
                container.task.cancel()

    @staticmethod
    def _report(container: FakeContainer) -> ContainerReport:
        return ContainerReport(
            container_id=container.id,
            allocation_id=container.spec.allocation_id,
            state=container.state,
            pulling=container.pulling,
            exit=container.exit,
        )

    def _say(self, message: Message) -> None:
        """Without a connection it is lost: the next Hello tells how things are."""
        self._outgoing.append(message)
        self._woken.set()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
