"""Containers under a supervisor process each, whatever way a task is set up: see `setup.Setup`.

agent -> supervisor.py (own session) -> bwrap, or task_init.py as its stand-in -> task_init.py -> task
                                     -> engine_watch.py ··· container of an engine -> image_init.py -> task
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import DEFAULT_PATH, NodeFacts
from agent_bootstrap.agent.containers.log_lines import read_lines
from agent_bootstrap.agent.runtimes.base import OnPull, ignored
from agent_bootstrap.agent.runtimes.isolation import SUPERVISOR_DIR
from agent_bootstrap.agent.runtimes.setup import ContainerStart, Setup, killed_early
from agent_bootstrap.agent.runtimes.task_tree import Ground, prepare
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, ExitRecord, IsolationKind
from agent_bootstrap.supervisor.protocol import KILL_SIGNAL
from windlass.base.processes import (
    LOOK_S,
    ProcessHandle,
    ProcessName,
    boot_id,
    is_running,
    marked_processes,
    send,
    wait_gone,
)

KILL_GRACE_S = 10.0
"""A supervisor that has not ended this long after it was told to kill is killed itself; its tree dies with it."""
OF_MACHINE = ("No space left on device", "Too many open files", "Cannot allocate memory")
"""How complaints of bubblewrap end that are no fault of the task."""
SWEEP_TRIES = 100
SWEEP_PAUSE_S = 0.02
LIFELINE_ENV = "WINDLASS_LIFELINE_FD"
_CHILD_LIFELINE_FD = 3

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Supervised:
    """A supervisor that runs, started by this agent or by one before it."""

    handle: ProcessHandle
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    look: asyncio.TimerHandle | None = None
    """The next one, where the kernel does not tell of its end."""
    forced: asyncio.TimerHandle | None = None
    node_ports: dict[int, int] = field(default_factory=dict)
    """By port of the container: they stay, and each stream asks for one."""


class ProcessSetup:
    """Tasks as processes of this machine, in namespaces of their own where that works."""

    def __init__(self, ground: Ground, notes: tuple[str, ...] = ()) -> None:
        self._ground = ground
        self._isolation = ground.isolation
        self._notes = notes

    @property
    def name(self) -> str:
        return "process"

    @property
    def notes(self) -> tuple[str, ...]:
        return (*filter(None, (self._isolation.note,)), *self._notes)

    @property
    def isolation(self) -> IsolationKind:
        return self._isolation.kind

    async def prepare(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, start: ContainerStart
    ) -> None:
        await asyncio.to_thread(prepare, place, spec, node, self._ground)

    def node_port(self, place: ContainerDir, port: int) -> int:
        return port

    def clear(self, place: ContainerDir) -> None:
        self._ground.cgroups.end(place.path.name)
        if not self._isolation.private_root:
            sweep(place)

    def sweep(self, known: frozenset[str]) -> None:
        """Supervisors take what they started with them."""


class ProcessRuntime:
    """Starts, signals, adopts and buries supervisors; see `Runtime` for the calls."""

    def __init__(
        self,
        setup: Setup,
        *,
        instance_id: str | None = None,
        lifeline_fd: int | None = None,
        orphan_ttl: timedelta | None = None,
        log_bytes: int | None = None,
    ) -> None:
        self._setup = setup
        self._orphan_ttl = orphan_ttl
        self._log_bytes = log_bytes
        self._instance_id = instance_id
        self._lifeline_fd = lifeline_fd
        self._supervised: dict[Path, _Supervised] = {}
        self._preparing: dict[Path, asyncio.Event] = {}
        """What is set when a container is killed that is being prepared."""
        self._killed: set[Path] = set()
        """Kills that were asked for, in case they come before there is a process or a disk to note them on."""

    @property
    def name(self) -> str:
        return self._setup.name

    @property
    def notes(self) -> tuple[str, ...]:
        return self._setup.notes

    @property
    def isolation(self) -> IsolationKind:
        return self._setup.isolation

    async def start(
        self, place: ContainerDir, spec: ContainerSpec, node: NodeFacts, on_pull: OnPull = ignored
    ) -> bool:
        killed = self._preparing[place.path] = asyncio.Event()
        if place.path in self._killed:
            killed.set()
        try:
            start = ContainerStart(killed=killed, on_pull=on_pull)
            await self._setup.prepare(place, spec, node, start)
        finally:
            del self._preparing[place.path]
        if killed.is_set():
            raise killed_early()
        said, pid = await asyncio.to_thread(self._spawn, place)
        try:
            self._adopt(place, pid)
            await _readable(said)
            return bool(os.read(said, 64))
        finally:
            os.close(said)

    async def reattach(self, place: ContainerDir) -> bool:
        who = place.read_json("supervisor.json")
        if who is None:
            # A supervisor may be just starting: the one who renames the specification decides whether it will.
            with suppress(FileNotFoundError):
                place.spec.rename(place.spec.with_suffix(".revoked"))
            who = place.read_json("supervisor.json")
        if who is None or str(who["boot_id"]) != boot_id():
            return False
        pid = int(str(who["pid"]))
        try:
            handle = ProcessHandle(pid)
        except ProcessLookupError:
            return False
        if not is_running(ProcessName(pid, int(str(who["start_time"])), str(who["boot_id"]))):
            handle.close()
            return False
        self._watch(place, _Supervised(handle))
        return True

    async def wait(self, place: ContainerDir) -> ExitRecord:
        supervised = self._supervised.get(place.path)
        if supervised is not None:
            await supervised.ended.wait()
        return await asyncio.to_thread(_verdict, place, self._setup)

    async def node_port(self, place: ContainerDir, port: int) -> int:
        supervised = self._supervised.get(place.path)
        known = supervised.node_ports if supervised is not None else {}
        if port not in known:
            known[port] = await asyncio.to_thread(self._setup.node_port, place, port)
        return known[port]

    def signal(self, place: ContainerDir, signum: int) -> None:
        supervised = self._supervised.get(place.path)
        if supervised is not None and not supervised.ended.is_set():
            with suppress(ProcessLookupError):
                supervised.handle.send(signum)

    def kill(self, place: ContainerDir) -> None:
        self._killed.add(place.path)
        with suppress(OSError):  # a full disk must not stop a kill
            place.mark_killed()
        if preparing := self._preparing.get(place.path):
            preparing.set()
        supervised = self._supervised.get(place.path)
        if supervised is None or supervised.ended.is_set():
            return
        self.signal(place, KILL_SIGNAL)
        if supervised.forced is None:
            supervised.forced = asyncio.get_running_loop().call_later(
                KILL_GRACE_S, self.signal, place, signal.SIGKILL
            )

    async def gc(self, place: ContainerDir) -> None:
        self._supervised.pop(place.path, None)
        self._killed.discard(place.path)
        await asyncio.to_thread(self._setup.clear, place)

    def detach(self) -> None:
        """Stop watching; everything goes on running, for the next agent."""
        for supervised in self._supervised.values():
            if not supervised.ended.is_set():
                _unwatch(supervised)
            if supervised.forced is not None:
                supervised.forced.cancel()
        self._supervised.clear()

    async def sweep(self, known: frozenset[str]) -> None:
        await asyncio.to_thread(self._setup.sweep, known)

    def _spawn(self, place: ContainerDir) -> tuple[int, int]:
        """Start the supervisor; the end of the pipe on which it says "running", and its pid."""
        environment = {"PATH": os.environ.get("PATH", DEFAULT_PATH)}
        if self._instance_id is not None:
            environment["WINDLASS_INSTANCE_ID"] = self._instance_id
        if self._orphan_ttl is not None:
            environment["WINDLASS_ORPHAN_TTL_S"] = str(self._orphan_ttl.total_seconds())
        if self._log_bytes is not None:
            environment["WINDLASS_TASK_LOG_BYTES"] = str(self._log_bytes)
        read_end, write_end = os.pipe()
        errors = os.open(
            place.path / "supervisor.err", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, write_end, 1),
            (os.POSIX_SPAWN_DUP2, errors, 2),
        ]
        if self._lifeline_fd is not None:
            environment[LIFELINE_ENV] = str(_CHILD_LIFELINE_FD)
            actions.append((os.POSIX_SPAWN_DUP2, self._lifeline_fd, _CHILD_LIFELINE_FD))
        script = str(SUPERVISOR_DIR / "supervisor.py")
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", script, str(place.path)],
                environment,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
            )
        except OSError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
            os.close(errors)
        return read_end, pid

    def _adopt(self, place: ContainerDir, pid: int) -> None:
        """Our own child: it stays a zombie until `_ended` reaps it, so the number cannot have been reused."""
        try:
            self._watch(place, _Supervised(ProcessHandle(pid)))
        except OSError:  # out of descriptors: what cannot be watched must not run
            os.kill(pid, signal.SIGKILL)
            raise

    def _watch(self, place: ContainerDir, supervised: _Supervised) -> None:
        self._supervised[place.path] = supervised
        descriptor = supervised.handle.descriptor
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._ended, supervised)
        else:
            self._look(supervised)
        if place.path in self._killed or place.was_killed():
            self.kill(place)

    def _look(self, supervised: _Supervised) -> None:
        if supervised.handle.wait(0):
            self._ended(supervised)
        else:
            loop = asyncio.get_running_loop()
            supervised.look = loop.call_later(LOOK_S, self._look, supervised)

    def _ended(self, supervised: _Supervised) -> None:
        _unwatch(supervised)
        if supervised.forced is not None:
            supervised.forced.cancel()
        with suppress(ChildProcessError):  # the child of an earlier agent
            os.waitpid(supervised.handle.pid, os.WNOHANG)
        supervised.ended.set()


def _unwatch(supervised: _Supervised) -> None:
    if supervised.handle.descriptor is not None:
        asyncio.get_running_loop().remove_reader(supervised.handle.descriptor)
    if supervised.look is not None:
        supervised.look.cancel()
    supervised.handle.close()


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _verdict(place: ContainerDir, setup: Setup) -> ExitRecord:
    """Read how it ended. No exit record means that somebody killed the supervisor: then nothing of it may be left."""
    told = place.read_json("exit.json")
    if told is not None:
        return told_verdict(place, told)
    who = place.read_json("supervisor.json")
    _end_first_process(who)
    sweep(place)
    try:
        setup.clear(place)
    except OSError as error:  # tried again before its directory goes
        log.warning("container %s: %s", place.path.name, error)
    now = datetime.now(UTC)
    if place.was_killed():
        return ExitRecord(exit_code=137, at=now, message="killed")
    if who is None:
        message = _last_words(place) or "the agent stopped before the task was started"
        return ExitRecord(exit_code=None, failure=ExitFailure.ABORTED, message=message, at=now)
    reason = "the supervisor of the task was killed"
    if str(who["boot_id"]) != boot_id():
        reason = "the machine restarted"
    elif words := _last_words(place):
        reason = f"the supervisor of the task failed: {words}"
    return ExitRecord(exit_code=None, failure=ExitFailure.AGENT_FAILED, message=reason, at=now)


def _end_first_process(who: dict[str, object] | None) -> None:
    """It runs as the task's user, who may have kept it from dying with its supervisor. All below it ends with it."""
    if who is None or who.get("init_start_time") is None:
        return
    first = ProcessName(
        int(str(who["init_pid"])), int(str(who["init_start_time"])), str(who["boot_id"])
    )
    send(first, signal.SIGKILL)
    wait_gone(first, KILL_GRACE_S)


def told_verdict(place: ContainerDir, told: dict[str, object]) -> ExitRecord:
    """What the supervisor wrote down in exit.json."""
    at = datetime.fromtimestamp(float(str(told["at"])), UTC)
    code = int(str(told["exit_code"]))
    setup_error = told["setup_error"]
    if told["lifeline_lost"]:
        return ExitRecord(
            exit_code=code,
            failure=ExitFailure.AGENT_FAILED,
            message="the host process of its instance ended",
            at=at,
        )
    if isinstance(setup_error, dict):
        failure = ExitFailure(setup_error["failure"])
        return ExitRecord(exit_code=None, failure=failure, message=setup_error["message"], at=at)
    if not told["started"] and not place.was_killed():
        said = _first_words(place)
        failure = ExitFailure.TASK_ERROR if is_refused_mount(said) else ExitFailure.ABORTED
        return ExitRecord(exit_code=None, failure=failure, message=start_failure(said), at=at)
    message = str(told.get("message", ""))
    return ExitRecord(exit_code=code, message=message, at=at)


def _first_words(place: ContainerDir) -> str:
    """Between supervisor and task, somebody gave up; what was said is the only output."""
    said = read_lines(place.output, 0, complete=True).entries
    return said[-1].log if said else ""


def start_failure(said: str) -> str:
    """In a sentence for the task's user."""
    if is_refused_mount(said):
        inside = said.removeprefix("bwrap: ").replace("/newroot", "").replace("/oldroot", "")
        return (
            f"a mount of the task cannot be made here: {inside}. "
            "Choose another container_path in bind_mounts: a folder of its own, such as /mnt/data"
        )
    return f"the task could not be started: {said or 'no reason was given'}"


def is_refused_mount(said: str) -> bool:
    """By bubblewrap. The agent has tried its own mounts before it joined: this one is of the task."""
    return said.startswith("bwrap: Can't ") and not said.endswith(OF_MACHINE)


def _last_words(place: ContainerDir) -> str:
    """What the supervisor itself complained about: a full disk, a missing interpreter."""
    try:
        lines = (place.path / "supervisor.err").read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:500] if lines else ""


def sweep(place: ContainerDir) -> None:
    """Kill what carries the container's id in its environment: the part of a tree that left its supervisor."""
    found: list[int] = []
    for _ in range(SWEEP_TRIES):
        found = marked_processes("DET_CONTAINER_ID", place.path.name)
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(SWEEP_PAUSE_S)
    log.warning("processes of container %s resist: %s", place.path.name, found)
