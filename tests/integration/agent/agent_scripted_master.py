"""A master that does what a test tells it, over in-memory channels, and remembers what agents said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import (
    AgentChannel,
    Bind,
    Channel,
    ChannelClosed,
    ContainerReport,
    ContainerSpec,
    ContainerState,
    ExitRecord,
    FileItem,
    ForgetContainer,
    Heartbeat,
    Hello,
    KillContainer,
    Leaving,
    LogAck,
    LogBatch,
    LogEntry,
    Message,
    StartContainer,
    Welcome,
)
from tests.fakes.memory_channel import memory_channel


def spec(
    container_id: str,
    *entrypoint: str,
    environment: Mapping[str, str] | None = None,
    files: Sequence[FileItem] = (),
    binds: Sequence[Bind] = (),
    slot_ids: Sequence[int] = (),
    work_dir: str = "/run/determined/workdir",
    options: ContainerOptions | None = None,
) -> ContainerSpec:
    return ContainerSpec(
        container_id=container_id,
        allocation_id=f"{container_id}.1",
        task_id=container_id,
        task_type="TRIAL",
        entrypoint=entrypoint,
        environment=dict(environment or {}),
        files=tuple(files),
        binds=tuple(binds),
        slot_ids=tuple(slot_ids),
        work_dir=work_dir,
        options=options or ContainerOptions(),
    )


@dataclass
class ScriptedMaster:
    """Keeps every container it knows, takes each log line once, and acknowledges."""

    epoch: int = 1
    answer_hello: Callable[[Hello], Message] | None = None
    hellos: list[Hello] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)
    reports: list[ContainerReport] = field(default_factory=list)
    lines: dict[str, list[LogEntry]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    specs: dict[str, ContainerSpec] = field(default_factory=dict)
    keep: set[str] = field(default_factory=set)
    acks: bool = True
    said: list[Message] = field(default_factory=list)
    _channel: Channel | None = None
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def connect(self, credential: str = "") -> AgentChannel:
        """What the agent dials."""
        self.credentials.append(credential)
        theirs, ours = memory_channel()
        task = asyncio.create_task(self._serve(ours))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return theirs

    async def start(self, container: ContainerSpec) -> None:
        self.keep.add(container.container_id)
        self.specs[container.container_id] = container
        await self.send(StartContainer(epoch=self.epoch, spec=container))

    async def kill(self, container_id: str) -> None:
        await self.send(
            KillContainer(
                epoch=self.epoch, container_id=container_id, allocation_id=f"{container_id}.1"
            )
        )

    async def forget(self, container_id: str) -> None:
        self.keep.discard(container_id)
        await self.send(ForgetContainer(epoch=self.epoch, container_id=container_id))

    async def send(self, message: Message) -> None:
        while True:
            await self.until(lambda: self._channel is not None)
            channel = self._channel
            assert channel is not None
            try:
                await channel.send(message)
            except ChannelClosed:
                self._channel = None
            else:
                return

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def until_state(self, container_id: str, state: ContainerState) -> ContainerReport:
        await self.until(lambda: self.last(container_id, state) is not None)
        report = self.last(container_id, state)
        assert report is not None
        return report

    async def exit_of(self, container_id: str) -> ExitRecord:
        report = await self.until_state(container_id, ContainerState.EXITED)
        assert report.exit is not None
        return report.exit

    def last(self, container_id: str, state: ContainerState) -> ContainerReport | None:
        of_it = [r for r in self.reports if r.container_id == container_id and r.state is state]
        return of_it[-1] if of_it else None

    def text(self, container_id: str) -> list[str]:
        return [entry.log for entry in self.lines.get(container_id, [])]

    async def until_line(self, container_id: str, line: str) -> None:
        await self.until(lambda: line in self.text(container_id))

    async def hang_up(self) -> None:
        """As if the network broke."""
        if self._channel is not None:
            await self._channel.close()

    async def close(self) -> None:
        await self.hang_up()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, channel: Channel) -> None:
        try:
            hello = await channel.receive()
            assert isinstance(hello, Hello)
            await channel.send(self.answer_hello(hello) if self.answer_hello else self.welcome())
            known = {report.container_id for report in hello.containers}
            for container_id in self.keep - known:
                if container_id in self.specs:
                    message = StartContainer(epoch=self.epoch, spec=self.specs[container_id])
                    await channel.send(message)
            self._channel = channel
            await self._note(lambda: self.hellos.append(hello))
            await self._note(lambda: self.reports.extend(hello.containers))
            while True:
                await self._hear(channel, await channel.receive())
        except ChannelClosed:
            pass
        finally:
            if self._channel is channel:
                self._channel = None

    def welcome(self) -> Welcome:
        return Welcome(
            epoch=self.epoch,
            master_id="m",
            cluster_id="c",
            keep=tuple(self.keep),
            log_offsets={key: self.offsets.get(key, 0) for key in self.keep},
        )

    async def _hear(self, channel: Channel, message: Message) -> None:
        match message:
            case ContainerReport():
                await self._note(lambda: self.reports.append(message))
            case LogBatch():
                await self._note(lambda: self._store(message))
                if self.acks:
                    offset = self.offsets.get(message.container_id, 0)
                    await channel.send(
                        LogAck(container_id=message.container_id, next_offset=offset)
                    )
            case Heartbeat() | Leaving():
                await self._note(lambda: self.said.append(message))
            case _:
                raise AssertionError(f"agents do not say {type(message).__name__}")

    def _store(self, batch: LogBatch) -> None:
        """Only what is new, as a log store does."""
        if batch.first_offset != self.offsets.get(batch.container_id, 0):
            return
        self.lines.setdefault(batch.container_id, []).extend(batch.entries)
        self.offsets[batch.container_id] = batch.next_offset

    async def _note(self, change: Callable[[], object]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()
