"""Programs on the login node whose input and output are kept as a pipe, for as long as the master runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from agent_bootstrap.channels.streams import CHUNK_BYTES, Stream
from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import command_environment

MOST_WORDS = 4096
END_S = 5.0


class Pipe(Stream, Protocol):
    """What a program reads and writes."""

    async def ended(self) -> str:
        """End it; the last that it said on its standard error."""
        ...


class Pipes(Protocol):
    async def start(self, words: Sequence[str]) -> Pipe:
        """No shell. It ends with its input, at the latest. Raises NoAnswer."""
        ...


class LocalPipes:
    """Implements `Pipes`: on this machine, as this user."""

    def __init__(self, *, path: str = "", libraries: str = "") -> None:
        """As of commands."""
        self._environment = command_environment(path, libraries)

    async def start(self, words: Sequence[str]) -> Pipe:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            raise NoAnswer(f"{words[0]} cannot be run: {error.strerror}") from None
        return _LocalPipe(process)


class _LocalPipe:
    """Implements `Pipe`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("a process without pipes")
        self._process = process
        self._input, self._output = process.stdin, process.stdout
        self._said = ""
        self._listening = asyncio.create_task(self._listen(process.stderr))

    async def read(self) -> bytes:
        return await self._output.read(CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        self._input.write(data)
        await self._input.drain()

    async def end(self) -> None:
        self._input.close()

    def close(self) -> None:
        self._input.close()

    async def ended(self) -> str:
        self._input.close()
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        finally:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.kill()
        await asyncio.gather(self._listening, return_exceptions=True)
        return last_line(self._said)

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        while said := await errors.read(MOST_WORDS):
            self._said = (self._said + said.decode(errors="replace"))[-MOST_WORDS:]


def last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines()]
    return next((line for line in reversed(lines) if line), "")
