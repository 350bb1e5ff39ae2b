"""A master's port, and each way to it with what stands between, for the contract of transports."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from agent_bootstrap.channels.requested_transport import RequestedTransport
from agent_bootstrap.channels.streams import Direct, Transport, connected
from agent_bootstrap.channels.through_relay import RelayAddress, ThroughRelay
from agent_bootstrap.channels.through_ssh import ThroughSsh
from provisioner.batch.pipes import LocalPipes, Pipes
from provisioner.batch.relay_keeper import RelayKeeper
from provisioner.batch.ssh_pipes import SshPipes
from tests.sshd import login_node

LIMIT_S = 30.0


class Port:
    """What stands for the master: answers with what it was sent, as soon as `may_read` says so."""

    def __init__(self) -> None:
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.read = 0
        self.port = 0
        self._listening: socket.socket | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._answering: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._listening.setblocking(False)
        self.port = self._listening.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    async def close(self) -> None:
        self.may_read.set()
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        self.cut()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def cut(self) -> None:
        """As a master that is killed."""
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, listening: socket.socket) -> None:
        """Not by asyncio's server, which leaves a connection unclosed that it has accepted when it is closed."""
        with suppress(BlockingIOError):
            accepted, _ = listening.accept()
            self._answering.add(asyncio.ensure_future(self._answer(accepted)))

    async def _answer(self, accepted: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=accepted)
        self._writers.add(writer)
        if self._listening is None:
            writer.transport.abort()
        with suppress(OSError):
            while data := await reader.read(65536):
                if data.startswith(b"wait"):
                    await self.may_read.wait()
                self.read += len(data)
                writer.write(data)
                await writer.drain()
            writer.write(b"all")
            writer.write_eof()
            await writer.drain()
        writer.close()


@dataclass
class World:
    port: Port
    way: Transport
    cut: Callable[[], Awaitable[None]]
    """Break what stands between; it comes back by itself."""
    between: Callable[[], list[psutil.Process]]
    """The processes of the node's side."""
    folder: Path | None = None
    says_refused: bool = True
    """Whether opening a stream tells that the master does not listen."""

    @property
    def root(self) -> Path:
        """The folder of the jobs."""
        assert self.folder is not None
        return self.folder.parents[2]


def job_folder(root: Path, key: str = "good") -> Path:
    """A node of a job, as the master writes it."""
    folder = root / "wl-1" / "nodes" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "host.json").write_text(json.dumps({"agent": {"join_token": key}}))
    return folder


@asynccontextmanager
async def direct(tmp: Path) -> AsyncIterator[World]:
    port = Port()
    await port.open()

    async def cut() -> None:
        port.cut()

    yield World(port, Direct("127.0.0.1", port.port), cut, list)
    await port.close()


@asynccontextmanager
async def relay(tmp: Path) -> AsyncIterator[World]:
    async with _relay(tmp, LocalPipes()) as world:
        yield world


@asynccontextmanager
async def relay_over_ssh(tmp: Path) -> AsyncIterator[World]:
    """The master is on a laptop: its relay's pipe is the SSH connection that it holds."""
    with login_node(tmp / "at") as login:
        node = login.node()
        try:
            async with _relay(tmp, SshPipes(node)) as world:
                yield replace(world, cut=_both(login.sshd.cut, world.cut))
        finally:
            node.close()


def _both(
    first: Callable[[], None], then: Callable[[], Awaitable[None]]
) -> Callable[[], Awaitable[None]]:
    async def cut() -> None:
        first()
        await then()

    return cut


@asynccontextmanager
async def _relay(tmp: Path, pipes: Pipes) -> AsyncIterator[World]:
    port = Port()
    await port.open()
    root = tmp / "jobs"
    folder = job_folder(root)
    async with relayed(root, port, pipes):

        async def cut() -> None:
            before = _notice(root)
            for process in relays(root):
                process.kill()
            await until(lambda: _notice(root) not in (None, before))

        way = ThroughRelay(folder)
        yield World(port, way, cut, list, folder)
        await way.close()
    await until(lambda: not relays(root))
    await port.close()


@asynccontextmanager
async def relayed(root: Path, port: Port, pipes: Pipes) -> AsyncIterator[None]:
    keeper = RelayKeeper(
        pipes,
        python=sys.executable,
        root=str(root),
        dial=lambda _: connected("127.0.0.1", port.port),
    )
    task = asyncio.create_task(keeper.run())
    await until(lambda: _notice(root) is not None)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def files(tmp: Path) -> AsyncIterator[World]:
    async with _relay(tmp, LocalPipes()) as world:
        assert world.folder is not None
        way = RequestedTransport("files", world.folder, {})
        yield replace(world, way=way)
        await way.close()


@asynccontextmanager
async def srun(tmp: Path) -> AsyncIterator[World]:
    """srun is played by a program that runs its command here, once it has seen what it must be given."""
    program = tmp / "bin" / "srun"
    program.parent.mkdir()
    program.write_text(SRUN)
    program.chmod(0o755)
    async with _relay(tmp, LocalPipes(path=str(program.parent))) as world:
        assert world.folder is not None
        way = RequestedTransport(
            "srun", world.folder, {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}
        )
        yield replace(world, way=way, between=lambda: _with_words("agent_bootstrap.pipe", str(tmp)))
        await way.close()


SRUN = """#!/bin/sh
case " $* " in
*" --jobid=7 --nodelist=n1 --nodes=1 --ntasks=1 --overlap --mem=0 "*" --unbuffered "*) ;;
*) echo "srun: error: $*" >&2; exit 1 ;;
esac
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"""


@asynccontextmanager
async def ssh(tmp: Path) -> AsyncIterator[World]:
    async with _ssh(tmp, None) as world:
        yield world


@asynccontextmanager
async def ssh_to_relay(tmp: Path) -> AsyncIterator[World]:
    """The master's port is not reached from the login node: its relay is."""
    async with relay(tmp / "behind") as behind, _ssh(tmp, behind) as world:
        yield world


@asynccontextmanager
async def _ssh(tmp: Path, behind: World | None) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        login = stack.enter_context(login_node(tmp / "at"))
        user, _, host = login.sshd.spec.partition("@")
        bin_ = tmp / "bin"
        bin_.mkdir()
        config = tmp / "ssh_config"
        config.write_text(f"IdentityFile {login.key}\nUserKnownHostsFile {login.known_hosts}\n")
        (bin_ / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
        (bin_ / "ssh").chmod(0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{bin_}:{path}"
        stack.callback(os.environ.__setitem__, "PATH", path)
        port = Port() if behind is None else behind.port
        if behind is None:
            await port.open()
        target = ("127.0.0.1", port.port if behind is None else 1)
        folder = behind.folder if behind is not None else None
        way = ThroughSsh(f"{user}@{host}", target, folder)

        async def cut() -> None:
            login.sshd.cut()

        yield World(port, way, cut, lambda: clients(config), folder, behind is not None)
        await way.close()
        if behind is None:
            await port.close()


def clients(config: Path) -> list[psutil.Process]:
    return _with_words("ssh", str(config))


def relays(root: Path) -> list[psutil.Process]:
    return _with_words("agent_bootstrap.relay", str(root))


def sockets_left() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("windlass-*/s"))


def _with_words(*words: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if all(any(word in one for one in line) for word in words):
            found.append(process)
    return [one for one in found if one.info["status"] != psutil.STATUS_ZOMBIE]


def _notice(root: Path) -> RelayAddress | None:
    try:
        return RelayAddress.read(root)
    except OSError:
        return None


async def until(look: Callable[[], object]) -> None:
    """For processes that can only be asked, not awaited."""

    async def looked() -> bool:
        return bool(look())

    await eventually(looked)


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
