"""`ssh` from the node to the login node: one process of it carries all connections, from a socket file of this node.

Whoever runs the agent must be able to log in there without a password: keys of a shared home, or host-based. What
~/.ssh/config says holds. Where a relay runs it is met from there, else the master's port.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from agent_bootstrap.channels.streams import SocketStream, Stream, reason
from agent_bootstrap.channels.through_relay import RelayAddress, best_first, shown

START_S = 20.0
LOOK_S = 0.05
_OPTIONS = (
    *("-N", "-T", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes"),
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=10"),
    *("-o", "StreamLocalBindMask=0177", "-o", "ControlMaster=no", "-o", "ControlPath=none"),
)
WITH_US = """exec 3<&0
(read -r _ <&3; read -r _ _ _ parent _ </proc/self/stat; [ "$parent" = "$$" ] && kill "$$") 2>/dev/null &
exec ssh "$@" </dev/null 3<&-"""
"""It ends when our end of its input does, however we end. Its number may be another's once it has ended."""


class ThroughSsh:
    """Implements `Transport`."""

    name = "ssh"

    def __init__(self, login: str, target: tuple[str, int], folder: Path | None) -> None:
        """`login`: user@host:port. `target`: the master, as the login node reaches it. `folder`: of this node."""
        self._login = login
        self._target = target
        self._folder = folder
        self._notice: RelayAddress | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._sockets: Path | None = None
        self._starting = asyncio.Lock()

    async def open(self) -> Stream:
        if not self._login:
            raise ConnectionError("no login node is known: set ssh_login")
        async with self._starting:
            socket = await self._started()
        try:
            reader, writer = await asyncio.open_unix_connection(socket)
        except OSError as error:
            raise ConnectionError(f"{self._login}: {reason(error)}") from None
        if self._notice is not None and self._folder is not None:
            try:
                return await shown(reader, writer, self._folder)
            except OSError as error:
                raise ConnectionError(f"{self._login}, its relay: {error}") from None
        return SocketStream(reader, writer)

    async def close(self) -> None:
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            with suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()
            self._process = None
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)
            self._sockets = None

    async def _started(self) -> Path:
        """The socket file of a running one."""
        notice = await asyncio.to_thread(self._relay)
        runs = self._process is not None and self._process.returncode is None
        if not runs or notice != self._notice or self._sockets is None:
            await self.close()
            self._notice = notice
            # Names of socket files are short, and those of work directories are not.
            self._sockets = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="windlass-"))
            await self._start(self._sockets / "s")
        return self._sockets / "s"

    def _relay(self) -> RelayAddress | None:
        if self._folder is None:
            return None
        try:
            return RelayAddress.read(self._folder.parents[2])
        except OSError:
            return None

    async def _start(self, socket: Path) -> None:
        notice = self._notice
        host, port = self._target
        if notice is not None and notice.hosts:
            host, port = best_first(notice.hosts)[0], notice.port
        user_host, _, login_port = self._login.partition(":")
        said = socket.with_name("said")
        words = [*_OPTIONS, *(("-p", login_port) if login_port else ())]
        with said.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", WITH_US, "sh", *words),
                *("-L", f"{socket}:[{host}]:{port}", "--", user_host),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
            )
        self._process = process
        try:
            async with asyncio.timeout(START_S):
                while not await asyncio.to_thread(socket.exists):
                    if process.returncode is not None:
                        raise ConnectionError(f"{self._login}: {_last_words(process, said)}")
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise ConnectionError(f"{self._login} does not answer within {START_S:g} s") from None


def _last_words(process: asyncio.subprocess.Process, said: Path) -> str:
    if process.returncode == 127:
        return "ssh is not installed on this node"
    lines = [line.strip() for line in said.read_text(errors="replace")[-4096:].splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    return last or f"ssh ended with exit code {process.returncode}"
