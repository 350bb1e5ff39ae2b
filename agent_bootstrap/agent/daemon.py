"""The agent: one connection to the master at a time, the containers of this machine, and what one says of the other.

The agent is truth for what runs here; the master is truth for what should. Containers outlive the agent's process:
their supervisors are detached, and the next agent on the same work_dir finds them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import stamina

from agent_bootstrap.agent.batch.own_job import end_of, follow_end, last_moment, own_job
from agent_bootstrap.agent.batch.scratch import find_scratch, sweep
from agent_bootstrap.agent.connection.credential import load_or_create
from agent_bootstrap.agent.connection.epoch import EpochMemory
from agent_bootstrap.agent.connection.link import MasterLink
from agent_bootstrap.agent.connection.session import MasterSession, RefusedForGood
from agent_bootstrap.agent.connection.task_streams import TaskStreams
from agent_bootstrap.agent.containers.container_set import ContainerSet
from agent_bootstrap.agent.containers.directory import ContainerDirs
from agent_bootstrap.agent.logins import Logins
from agent_bootstrap.agent.machine import AgentMachine, trial_node
from agent_bootstrap.agent.membership.announcement import announced, withdraw
from agent_bootstrap.agent.membership.orphan_timer import OrphanTimer, since_contact_s
from agent_bootstrap.agent.metadata.tasks import MetadataOfTasks
from agent_bootstrap.agent.metadata.watch import watch
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.agent.slots import Hardware, find_hardware
from agent_bootstrap.channels.streams import Stream
from agent_bootstrap.interfaces import address_of
from agent_bootstrap.protocol import AgentChannel, ChannelClosed, Leaving, Staying
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import InvalidConfig, PermissionDenied
from windlass.base.formats.durations import format_duration
from windlass.base.formats.plurals import counted

FIRST_RETRY_S = 0.2
LAST_RETRY_S = 5.0
LOOK_S = 1.0
"""How soon it is seen that an operator says when this machine goes."""
STEADY_S = 30.0
"""A connection that ends sooner did not go well: the next one is not tried at once, and later each time."""
JITTER_S = 0.5
"""A thousand agents that lose one master do not come back in the same moment."""

log = logging.getLogger(__name__)

Connect = Callable[[str], Awaitable[AgentChannel]]
"""Dials the master once, showing the agent's credential. Raises ChannelClosed when it cannot be reached,
PermissionDenied when it refuses us."""
ConnectStreams = Callable[[str], Awaitable[Stream]]
"""The same for the connection that carries streams to tasks."""
OpenRuntime = Callable[[str, RuntimeSetup], Runtime]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnd:
    """Why the agent stopped by itself, and the exit code of its process."""

    reason: str
    code: int = 0
    ends_machine: bool = False
    """Nobody else would end it."""


class _Ended(Exception):
    """Unwinds the agent's task group."""


class AgentDaemon:
    """Runs until it is cancelled (containers stay), refused, shut down, or its lifeline ends."""

    def __init__(
        self,
        options: AgentOptions,
        *,
        connect: Connect,
        connect_streams: ConnectStreams | None = None,
        clock: Clock | None = None,
        lifeline_fd: int | None = None,
        open_runtime: OpenRuntime = open_runtime,
        find_hardware: Callable[..., Hardware] = find_hardware,
        reached: Callable[[], AgentOptions] | None = None,
        notes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """`reached`: the options, with the master where `connect` found it. `notes`: of the way there.

        Without `connect_streams` nobody reaches its tasks through the master.
        """
        self._options = options
        self._connect = connect
        self._connect_streams = connect_streams
        self._clock = clock or SystemClock()
        self._lifeline_fd = lifeline_fd
        self._open_runtime = open_runtime
        self._find_hardware = find_hardware
        self._reached = reached
        self._notes_of_way = notes
        self._job = own_job(options, os.environ)
        self._dirs = ContainerDirs(options.work_dir)
        self._link = MasterLink()
        self._logins = Logins(self._link)
        self._stop = asyncio.Event()
        self._end: AgentEnd | None = None
        self._credential = ""
        self._complaint = ""
        self._is_connected = False
        self._ends_with_job = False
        self._tasks: asyncio.TaskGroup
        self._epoch: EpochMemory
        self._machine: AgentMachine
        self._containers: ContainerSet
        self._streams: TaskStreams | None = None
        self._metadata: MetadataOfTasks
        self._alone: OrphanTimer

    async def run(self) -> AgentEnd:
        """Raises InvalidConfig for what an operator can mend, Conflict if another agent has the work_dir."""
        with self._dirs.locked():
            runtime = await self._prepare()
            try:
                async with asyncio.TaskGroup() as self._tasks:
                    self._watch_lifeline()
                    self._containers = ContainerSet(
                        self._dirs,
                        runtime,
                        metadata=self._metadata,
                        agent_id=self._options.agent_id,
                        link=self._link,
                        clock=self._clock,
                        tasks=self._tasks,
                    )
                    if self._connect_streams is not None:
                        dial = partial(self._connect_streams, self._credential)
                        self._streams = TaskStreams(dial, self._containers.node_port)
                    await self._containers.take_over()
                    await self._metadata.open(self._containers.is_running)
                    self._tasks.create_task(self._metadata.run())
                    self._tasks.create_task(self._stay_connected())
                    self._tasks.create_task(self._watch_announcements())
                    if self._job is not None:
                        look = partial(end_of, self._job)
                        known = self._machine.ends_at
                        self._tasks.create_task(follow_end(look, self.leave, known))
                    if self._options.metadata_service:
                        self._tasks.create_task(self._watch_cloud())
                    await self._stop.wait()
                    raise _Ended
            except* _Ended:
                pass
            finally:
                if self._lifeline_fd is not None:
                    asyncio.get_running_loop().remove_reader(self._lifeline_fd)
                await self._metadata.close()
                runtime.detach()
        end = self._end or AgentEnd(reason="stopped")
        alone = self._alone.is_over() or self._alone.is_over_with_those_before()
        return replace(end, ends_machine=alone and self._options.alone_ends_machine)

    async def leave(self, at: datetime, reason: str, *, taken_back: bool = False) -> None:
        """Whoever watches this machine says that it goes at `at`."""
        await self._leave(Leaving(at=at, reason=reason, taken_back=taken_back))

    async def _leave(self, leaving: Leaving) -> None:
        """Told at once, and again on each connection."""
        known = self._machine.leaving
        if known is not None and not leaving.is_before(known):
            return
        log.warning("this machine goes %s: %s", leaving.when, leaving.reason)
        self._machine.leaving = leaving
        with suppress(ChannelClosed):  # then the next Hello tells it
            await self._link.send(leaving)

    @property
    def is_in_own_job(self) -> bool:
        """A user has started it in a job of theirs."""
        return self._job is not None

    async def end_with_job(self) -> None:
        """The job got SIGTERM, perhaps its only warning: work makes a checkpoint and leaves, then the agent ends."""
        end = None if self._job is None else await end_of(self._job)
        at = last_moment(self._job, end, self._clock.now())
        await self.leave(at, "its batch job was told to end (SIGTERM)")
        self._ends_with_job = True

    async def _watch_cloud(self) -> None:
        options = self._options
        has_gpus = bool(self._machine.hardware.gpus)
        leave = partial(self.leave, taken_back=True)
        await watch(options.cloud, options.metadata_service, leave, has_gpus=has_gpus)

    async def _watch_announcements(self) -> None:
        was_announced = self._machine.leaving is not None
        while True:
            await asyncio.sleep(LOOK_S)
            self._end_if_alone()
            if self._ends_with_job and not self._containers.has_work:
                self._finish("its Slurm job was told to end, and nothing runs any more")
            leaving = await asyncio.to_thread(announced, self._options.work_dir)
            if leaving is not None:
                await self._leave(leaving)
            elif was_announced:
                await self._stay()
            was_announced = leaving is not None

    def _end_if_alone(self) -> None:
        """Nobody asks for this machine any more, or nobody can. Ends that nobody heard of wait in the work_dir."""
        ttl = self._options.alone_ttl
        if self._is_connected or self._containers.has_work:
            self._alone.not_now()
        elif ttl is not None and self._alone.is_over():
            self._finish(f"no contact to the master for {format_duration(ttl)}, and nothing to do")

    async def _stay(self) -> None:
        """What an operator announced was taken back."""
        log.info("this machine does not go after all")
        self._machine.leaving = None
        with suppress(ChannelClosed):  # then the next Hello says nothing of it
            await self._link.send(Staying())

    def _withdraw(self) -> None:
        with suppress(OSError):
            withdraw(self._options.work_dir)

    async def _prepare(self) -> Runtime:
        options = self._options
        if options.network_interface:
            address = await asyncio.to_thread(address_of, options.network_interface)
            options = options.model_copy(update={"address": address})
        already_s = 0.0
        if options.alone_ends_machine:
            already_s = await asyncio.to_thread(since_contact_s, options.work_dir, self._clock)
        self._alone = OrphanTimer(options.alone_ttl, self._clock, already_s=already_s)
        self._epoch = EpochMemory(options.work_dir / "epoch.json")
        self._credential = await asyncio.to_thread(load_or_create, options.work_dir)
        known = await asyncio.to_thread(self._dirs.load)
        if (scratch := find_scratch(options.scratch_dir, os.environ)) is not None:
            await asyncio.to_thread(sweep, scratch)
        old_numbers = any(record.slot_ids and not record.slots_by_index for record in known)
        hardware = await asyncio.to_thread(self._find_hardware, options, old_numbers=old_numbers)
        setup = RuntimeSetup(
            options=options,
            lifeline_fd=self._lifeline_fd,
            logins=self._logins,
            # Work that goes on needs its agent, whatever can be started now.
            trial_on=None if known else trial_node(options, hardware),
        )
        runtime = await asyncio.to_thread(self._open_runtime, options.container_runtime, setup)
        self._metadata = MetadataOfTasks(
            options.task_metadata,
            options.cloud,
            options.metadata_service,
            work_dir=options.work_dir,
            secret=self._credential,
            clock=self._clock,
            proxies=options.proxies,
        )
        self._machine = AgentMachine(
            options, hardware, runtime, passing_notes=self._passing_notes, reached=self._reached
        )
        await asyncio.to_thread(self._machine.remember)
        if self._job is not None and options.ends_at is None:
            self._machine.ends_at = await end_of(self._job)
        self._machine.leaving = await asyncio.to_thread(announced, options.work_dir)
        log.info("agent %s: %s", options.agent_id, counted(len(hardware.slots), "slot"))
        for note in self._machine.standing_notes:
            log.warning("%s", note)
        return runtime

    def _passing_notes(self) -> tuple[str, ...]:
        return (*self._notes_of_way(), *self._metadata.notes())

    def _finish(self, reason: str, code: int = 0) -> None:
        """With a code, whoever runs the agent says the reason."""
        if code == 0:
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

    async def _stay_connected(self) -> None:
        pause_s = FIRST_RETRY_S
        while True:
            try:
                session = await self._joined()
            except RefusedForGood as error:
                self._finish(f"refused by the master: {error}", code=1)
                return
            except (PermissionDenied, InvalidConfig) as error:
                self._finish(error.message, code=1)
                return
            connected_at = self._clock.monotonic()
            try:
                self._link.open(session.channel)
                self._is_connected = True
                await session.serve()
            except ChannelClosed as error:
                log.info("connection to the master lost: %s", error)
            finally:
                self._is_connected = False
                self._link.close()
                if self._streams is not None:
                    await self._streams.close()
                await session.channel.close()
            lasted_s = self._clock.monotonic() - connected_at
            pause_s = FIRST_RETRY_S if lasted_s >= STEADY_S else min(2 * pause_s, LAST_RETRY_S)
            await asyncio.sleep(pause_s)

    async def _joined(self) -> MasterSession:
        """A session that the master has welcomed. Raises RefusedForGood, PermissionDenied."""
        async for attempt in stamina.retry_context(
            on=self._is_passing,
            attempts=None,
            timeout=None,
            wait_initial=FIRST_RETRY_S,
            wait_max=LAST_RETRY_S,
            wait_jitter=JITTER_S,
        ):
            with attempt:
                return await self._join_once()
        raise AssertionError("unreachable: there is always another attempt")

    def _is_passing(self, error: Exception) -> bool:
        """Worth another try. With work running, so is everything that an operator may mend meanwhile."""
        mendable = isinstance(error, PermissionDenied | InvalidConfig | RefusedForGood)
        passing = isinstance(error, ChannelClosed) or (mendable and bool(self._containers))
        complaint = str(error)
        if passing and complaint != self._complaint:
            log.warning("no connection to the master, will try again: %s", complaint)
        self._complaint = complaint
        return passing

    async def _join_once(self) -> MasterSession:
        channel = await self._connect(self._credential)
        try:
            session = MasterSession(
                channel,
                machine=self._machine,
                containers=self._containers,
                epoch=self._epoch,
                logins=self._logins,
                shut_down=self._shut_down,
                stay=self._withdraw,
                streams=self._streams,
            )
            await session.greet()
        except BaseException:
            await channel.close()
            raise
        self._complaint = ""
        return session

    def _shut_down(self, reason: str) -> None:
        async def end() -> None:
            await self._containers.end_all()
            self._finish(f"shut down by the master: {reason}")

        self._tasks.create_task(end())


def lifeline_from_environment() -> int | None:
    """The inherited descriptor of the host process, kept from children that are not told of it."""
    number = os.environ.pop("WINDLASS_LIFELINE_FD", "")
    if not number:
        return None
    os.set_inheritable(int(number), False)
    return int(number)
