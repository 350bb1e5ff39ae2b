"""One connection to the master: the greeting, then listening, reporting and beating until it is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from agent_bootstrap.agent.connection.epoch import EpochMemory
from agent_bootstrap.agent.connection.task_streams import TaskStreams
from agent_bootstrap.agent.containers.container_set import ContainerSet
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.logins import Logins
from agent_bootstrap.agent.machine import AgentMachine
from agent_bootstrap.protocol import (
    HEARTBEAT_S,
    AgentChannel,
    AgentShutdown,
    ChannelClosed,
    ForgetContainer,
    JoinRefused,
    KillContainer,
    LogAck,
    Message,
    OpenStreams,
    RegistryLoginReply,
    SignalContainer,
    StartContainer,
    Stay,
    Welcome,
)
from windlass.base.errors import InvalidArgument

WELCOME_LIMIT_S = 60.0
REPORT_AGAIN_S = 10.0
"""An exit is told again this often until the master forgets the container."""

log = logging.getLogger(__name__)


class RefusedForGood(Exception):
    """The master does not want this agent; another try would change nothing."""


class MasterSession:
    """`greet`, then `serve`."""

    def __init__(
        self,
        channel: AgentChannel,
        *,
        machine: AgentMachine,
        containers: ContainerSet,
        epoch: EpochMemory,
        logins: Logins,
        shut_down: Callable[[str], None],
        stay: Callable[[], None],
        streams: TaskStreams | None,
    ) -> None:
        self.channel = channel
        self._machine = machine
        self._containers = containers
        self._epoch = epoch
        self._logins = logins
        self._shut_down = shut_down
        self._stay = stay
        self._streams = streams
        self._node: NodeFacts

    async def greet(self) -> None:
        """Until the master has welcomed us. Raises ChannelClosed, RefusedForGood."""
        # What happens from here on is told again once the master listens.
        self._containers.outbox.take()
        reports = self._containers.reports()
        hello = self._machine.hello(reports, self._epoch.highest)
        of_connection = {
            "own_address": self.channel.own_address,
            "carries_streams": self._streams is not None,
        }
        await self.channel.send(hello.model_copy(update=of_connection))
        try:
            async with asyncio.timeout(WELCOME_LIMIT_S):
                answer = await self.channel.receive()
        except TimeoutError:
            raise ChannelClosed("the master did not answer the greeting") from None
        if isinstance(answer, JoinRefused):
            if not answer.retry:
                raise RefusedForGood(answer.reason)
            raise ChannelClosed(f"refused: {answer.reason}")
        if not isinstance(answer, Welcome):
            raise ChannelClosed(f"expected a welcome, got {type(answer).__name__}")
        if not self._admit(answer.epoch):
            raise ChannelClosed(f"this master (epoch {answer.epoch}) has been succeeded")
        self._node = self._machine.node(answer)
        self._logins.master_answers = answer.answers_logins
        self._containers.keep_only(answer.keep, answer.log_offsets)

    async def serve(self) -> None:
        """Listen, report and beat until one of them finds the connection lost: raises ChannelClosed.

        Not a task group: in Python 3.11 one that fails while it is being cancelled forgets the cancellation.
        """
        parts = [
            asyncio.create_task(part) for part in (self._listen(), self._report(), self._beat())
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

    async def _report(self) -> None:
        outbox = self._containers.outbox
        while True:
            for report in outbox.take():
                await self.channel.send(report)
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_AGAIN_S):
                    await outbox.filled.wait()
                    continue
            self._containers.report_exits_again()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self.channel.send(self._machine.heartbeat())
            self._machine.note_contact()

    async def _listen(self) -> None:
        while True:
            message = await self.channel.receive()
            epoch = getattr(message, "epoch", None)
            if epoch is not None and epoch != self._epoch.highest and not self._admit(epoch):
                log.warning("%s of a succeeded master ignored", type(message).__name__)
                continue
            try:
                self._obey(message)
            except InvalidArgument as error:
                log.error("%s: %s", type(message).__name__, error.message)

    def _obey(self, message: Message) -> None:
        containers = self._containers
        match message:
            case StartContainer(spec=spec):
                containers.start(self._machine.with_default_limits(spec), self._node)
            case KillContainer():
                containers.kill(message)
            case SignalContainer(container_id=container_id, signal=signum):
                if container := containers.get(container_id):
                    container.signal(signum)
            case ForgetContainer(container_id=container_id):
                if container := containers.get(container_id):
                    container.forget()
            case LogAck(container_id=container_id, next_offset=offset):
                if container := containers.get(container_id):
                    container.shipper.acknowledge(offset)
            case RegistryLoginReply():
                self._logins.tell(message)
            case Stay():
                self._stay()
            case OpenStreams() if self._streams is not None:
                self._streams.open()
            case AgentShutdown(reason=reason):
                self._shut_down(reason)
            case _:
                log.warning("unexpected message: %s", type(message).__name__)
