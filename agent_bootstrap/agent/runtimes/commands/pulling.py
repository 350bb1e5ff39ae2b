"""Makes the image of a task, once for all tasks that name it, and says in the task's log how it goes."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from agent_bootstrap.agent.containers.directory import remove_tree
from agent_bootstrap.agent.runtimes.commands.cache import ImageCache, size_of
from agent_bootstrap.agent.runtimes.commands.cache_lock import FRESHEN_S, CacheLock
from agent_bootstrap.agent.runtimes.commands.tool import Tool, ToolCall, environment
from agent_bootstrap.agent.runtimes.pulls import pull_refused
from agent_bootstrap.agent.runtimes.setup import ContainerStart, killed_early, unless_killed
from agent_bootstrap.agent.runtimes.task_lines import Say
from agent_bootstrap.protocol import RegistryCredentials
from windlass.base.formats.image_reference import ImageReference

LOOK_AGAIN_S = 0.5
"""How soon it is seen that somebody else has made the image."""
SAY_EVERY_S = 1.0
MAX_SAID = 200
LAST_LINES = 5
MAX_LINE_BYTES = 1 << 16
ENDING_S = 5.0
"""How long a call that is not wanted any more gets to clean up."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

log = logging.getLogger(__name__)


class Pulling:
    def __init__(self, tool: Tool, cache: ImageCache) -> None:
        self._tool = tool
        self._cache = cache

    async def image(
        self,
        wanted: ImageReference,
        login: RegistryCredentials | None,
        container_id: str,
        *,
        force: bool,
        say: Say,
        start: ContainerStart,
    ) -> Path:
        """Where it is on this machine, for that container until the cache releases it. Raises StartRefused."""
        cache, place = self._cache, self._cache.place_of(wanted, login)
        not_before = time.time() if force else 0.0
        held = await asyncio.to_thread(cache.lock, place)
        if held is None:
            say(f"Waiting for image {wanted.name}: it is being made for another task")
            with start.pulling():
                held = await self._lock(place, start.killed)
        try:
            if not await asyncio.to_thread(cache.take, place, container_id, not_before=not_before):
                with start.pulling():
                    async with _kept(held):
                        await self._make(wanted, login, place, say, start.killed)
                await asyncio.to_thread(cache.take, place, container_id)
        finally:
            held.close()
        await asyncio.to_thread(cache.trim)
        return place

    async def _lock(self, place: Path, killed: asyncio.Event) -> CacheLock:
        while (held := await asyncio.to_thread(self._cache.lock, place)) is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await killed.wait()
                    raise killed_early()
        return held

    async def _make(
        self,
        wanted: ImageReference,
        login: RegistryCredentials | None,
        place: Path,
        say: Say,
        killed: asyncio.Event,
    ) -> None:
        say(f"Pulling image {wanted.name} with {self._tool.shown}")
        began = time.monotonic()
        scratch = await asyncio.to_thread(self._cache.scratch)
        try:
            made = scratch / f"image{self._tool.suffix}"
            for command in self._tool.make(wanted, made, login, scratch):
                problem = await _call(command, say, killed)
                if problem is not None:
                    raise pull_refused(wanted.name, problem, with_login=login is not None)
            await asyncio.to_thread(self._cache.put, made, place)
        finally:
            await asyncio.to_thread(remove_tree, scratch)
        size = await asyncio.to_thread(size_of, place)
        taken = time.monotonic() - began
        say(f"Image {wanted.name} is ready: {size / 2**20:.0f} MiB in {taken:.0f} s")


@asynccontextmanager
async def _kept(held: CacheLock) -> AsyncIterator[None]:
    async def keep() -> None:
        while True:
            await asyncio.sleep(FRESHEN_S)
            await asyncio.to_thread(held.freshen)

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()


async def _call(command: ToolCall, say: Say, killed: asyncio.Event) -> str | None:
    """Run it with what it says in the task's log. None: it went well; else its last words. Raises StartRefused."""
    for path, content in command.files.items():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
    process = await asyncio.create_subprocess_exec(
        *command.words,
        cwd="/",
        env=environment(os.environ) | dict(command.environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        limit=MAX_LINE_BYTES,
    )
    try:
        last = await unless_killed(killed, _relay(process.stdout, say))
        code = await unless_killed(killed, process.wait())
    finally:
        await _end(process)
    if code == 0:
        return None
    return " ".join(last) or f"{command.words[0]} ended with exit code {code}"


async def _relay(output: asyncio.StreamReader | None, say: Say) -> Sequence[str]:
    """Into the task's log, not all of it; the last lines."""
    last: deque[str] = deque(maxlen=LAST_LINES)
    said, said_at = 0, float("-inf")
    pending = b""
    while output is not None and (chunk := await output.read(MAX_LINE_BYTES)):
        # Progress bars write over themselves with \\r.
        *lines, pending = re.split(rb"[\r\n]+", (pending + chunk)[-2 * MAX_LINE_BYTES :])
        for line in filter(None, map(_plain, lines)):
            last.append(line)
            now = time.monotonic()
            if said < MAX_SAID and now - said_at >= SAY_EVERY_S:
                said, said_at = said + 1, now
                say(line)
    if rest := _plain(pending):
        last.append(rest)
    return last


async def _end(process: asyncio.subprocess.Process) -> None:
    """With all that it started."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_S):
                await process.wait()
                return


def _plain(line: bytes) -> str:
    return _COLOURS.sub("", line.decode(errors="replace")).strip()
