"""The node's end of the ways for which it asks the relay: many streams over one pipe that comes to it."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from agent_bootstrap.channels.asks import Ask, node_of
from agent_bootstrap.channels.boxes import Box
from agent_bootstrap.channels.mux import Mux
from agent_bootstrap.channels.pipe_socket import socket_path
from agent_bootstrap.channels.streams import SocketStream, Stream

ANSWER_S = {"srun": 20.0, "files": 90.0}
SILENCE_S = {"srun": 45.0, "files": 300.0}
LOOK_S = 1.0


class Asked:
    """Implements `Way`."""

    def __init__(
        self, name: Literal["srun", "files"], folder: Path, environ: Mapping[str, str]
    ) -> None:
        """`folder`: of this node, in the directory of its job."""
        self.name = name
        self._folder = folder
        self._root = folder.parents[2]
        self._environ = environ
        self._mux: Mux | None = None
        self._running: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def open(self) -> Stream:
        async with self._starting:
            if self._mux is None or self._running is None or self._running.done():
                self._mux = await self._asked()
        return await self._mux.open()

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    async def _asked(self) -> Mux:
        """A pipe with somebody at its other end. Raises OSError with words."""
        ask = Ask(
            way=self._which(),
            node=node_of(self._folder),
            session=secrets.token_hex(8),
            job_id=self._environ.get("SLURM_JOB_ID", ""),
            host=self._environ.get("SLURMD_NODENAME", ""),
        )
        if ask.way == "srun" and not (ask.job_id and ask.host):
            raise ConnectionError("this is no job of Slurm")
        there: asyncio.Future[Mux] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(self._run(ask, there))
        parts: list[asyncio.Future[Mux] | asyncio.Task[None]] = [there, running]
        limit_s = ANSWER_S[self.name]
        await asyncio.wait(parts, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if there.done():
            self._running = running
            return there.result()
        why = await asyncio.to_thread(ask.why, self._root)
        running.cancel()
        failed = (await asyncio.gather(running, return_exceptions=True))[0]
        if isinstance(failed, OSError):
            raise ConnectionError(f"{self._root}: {failed.strerror or failed}") from None
        raise ConnectionError(
            why
            or f"no relay answered within {ANSWER_S[self.name]:g} s: does one run on the login node?"
        )

    def _which(self) -> Literal["srun", "files"]:
        return "srun" if self.name == "srun" else "files"

    async def _run(self, ask: Ask, there: asyncio.Future[Mux]) -> None:
        """Ask, and carry until the pipe is over."""
        pipe = self._by_srun(ask) if ask.way == "srun" else self._by_files(ask)
        try:
            async with pipe as stream:
                mux = Mux(stream, silence_s=SILENCE_S[self.name])
                carrying = asyncio.create_task(mux.run())
                watching = asyncio.create_task(self._until_taken_back(ask))
                heard = asyncio.create_task(mux.heard.wait())
                try:
                    await asyncio.wait([heard, carrying], return_when=asyncio.FIRST_COMPLETED)
                    if mux.heard.is_set() and not there.done():
                        there.set_result(mux)
                    await asyncio.wait([carrying, watching], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (carrying, watching, heard):
                        task.cancel()
                    await asyncio.gather(carrying, watching, heard, return_exceptions=True)
        finally:
            await asyncio.to_thread(ask.take_back, self._root)

    async def _until_taken_back(self, ask: Ask) -> None:
        """A relay that starts forgets what those before it were asked."""
        while await asyncio.to_thread(ask.stands, self._root):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    @asynccontextmanager
    async def _by_files(self, ask: Ask) -> AsyncIterator[Stream]:
        up, down = await asyncio.to_thread(box_folders, self._folder, ask.session, make=True)
        await asyncio.to_thread(ask.write, self._root)
        box = Box(up, down)
        try:
            yield box
        finally:
            box.close()

    @asynccontextmanager
    async def _by_srun(self, ask: Ask) -> AsyncIterator[Stream]:
        came: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if came.done():
                writer.close()
            else:
                came.set_result(SocketStream(reader, writer))

        with socket_path(self._folder) as path:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - of an agent before us
            server = await asyncio.start_unix_server(take, path)
        try:
            await asyncio.to_thread(ask.write, self._root)
            stream = await came
            try:
                yield stream
            finally:
                stream.close()
        finally:
            server.close()


def box_folders(folder: Path, session: str, *, make: bool = False) -> tuple[Path, Path]:
    """What the node writes, and what it reads."""
    box = folder / "box" / session
    if make:
        for one in (box.parent, box, box / "up", box / "down"):
            one.mkdir(mode=0o700, exist_ok=True)
    return box / "up", box / "down"
