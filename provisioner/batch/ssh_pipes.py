"""Programs on a login node as pipes, over the SSH connection that the master keeps to it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import paramiko

from agent_bootstrap.channels.streams import CHUNK_BYTES
from provisioner.batch.base import NoAnswer
from provisioner.batch.pipes import MOST_WORDS, Pipe, last_line
from provisioner.batch.ssh import ENVIRONMENT, LoginNode
from windlass.install.ssh import HostError

_SCRIPT = f'path=$1 libraries=$2; shift 2; {ENVIRONMENT} "$@"'


class SshPipes:
    """Implements `Pipes`: on a login node, as the user who logs in there."""

    def __init__(self, login: LoginNode, *, path: str = "", libraries: str = "") -> None:
        """As of commands."""
        self._login = login
        self._path = path
        self._libraries = libraries

    async def start(self, words: Sequence[str]) -> Pipe:
        return _SshPipe(await asyncio.to_thread(self._open, words))

    def _open(self, words: Sequence[str]) -> paramiko.Channel:
        command = shlex.join(["sh", "-c", _SCRIPT, "sh", self._path, self._libraries, *words])
        try:
            return self._login.machine().program(command)
        except HostError as error:
            raise NoAnswer(f"login node: {error.message}") from None


class _SshPipe:
    """Implements `Pipe`. sshd ends the program's input with the connection."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="ssh-pipe")
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="ssh-pipe")

    async def read(self) -> bytes:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reading, self._channel.recv, CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writing, self._channel.sendall, data)

    async def end(self) -> None:
        self._channel.shutdown_write()

    def close(self) -> None:
        self._channel.close()

    async def ended(self) -> str:
        said = b""
        with suppress(OSError):
            if self._channel.recv_stderr_ready():
                said = self._channel.recv_stderr(MOST_WORDS)
        self._channel.close()
        self._reading.shutdown(wait=False)
        self._writing.shutdown(wait=False)
        return last_line(said.decode(errors="replace"))
