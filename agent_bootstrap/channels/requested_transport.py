"""The node's end of transports that it requests from the relay: many streams over one pipe that comes to it."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from agent_bootstrap.channels.file_pipes import Box
from agent_bootstrap.channels.mux import Mux
from agent_bootstrap.channels.pipe_socket import socket_path
from agent_bootstrap.channels.streams import SocketStream, Stream
from agent_bootstrap.channels.tickets import NOTICE
from agent_bootstrap.channels.transport_requests import TransportRequest, node_of

ANSWER_S = {"srun": 20.0, "files": 90.0}
SILENCE_S = {"srun": 45.0, "files": 300.0}
LOOK_S = 1.0


class RequestedTransport:
    """Implements `Transport`."""

    def __init__(
        self, name: Literal["srun", "files"], folder: Path, environ: Mapping[str, str]
    ) -> None:
        """`folder`: of this node, in the directory of its job."""
        self.name = name
        self._folder = folder
        self._root = folder.parents[2]
        self._environ = environ
        self._mux: Mux | None = None
        self._running: asyncio.Task[str] | None = None
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
        if not await asyncio.to_thread(self._relay_runs):
            raise ConnectionError("no relay runs on the login node")
        ask = TransportRequest(
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
        parts: list[asyncio.Future[Mux] | asyncio.Task[str]] = [there, running]
        limit_s = ANSWER_S[self.name]
        await asyncio.wait(parts, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if there.done():
            self._running = running
            return there.result()
        running.cancel()
        ended = (await asyncio.gather(running, return_exceptions=True))[0]
        if isinstance(ended, OSError):
            raise ConnectionError(f"{self._root}: {ended.strerror or ended}") from None
        late = f"no relay answered within {limit_s:g} s: does one run on the login node?"
        raise ConnectionError(ended if isinstance(ended, str) else late)

    def _which(self) -> Literal["srun", "files"]:
        return "srun" if self.name == "srun" else "files"

    async def _run(self, ask: TransportRequest, there: asyncio.Future[Mux]) -> str:
        """Ask, and carry until the pipe is over; why it is."""
        pipe = self._by_srun(ask) if ask.way == "srun" else self._by_files(ask)
        try:
            async with pipe as coming:
                await asyncio.to_thread(ask.write, self._root)
                carrying = asyncio.create_task(self._carry(coming, there))
                watching = asyncio.create_task(self._until_over(ask, there))
                try:
                    ended, _ = await asyncio.wait(
                        [carrying, watching], return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    for task in (carrying, watching):
                        task.cancel()
                    await asyncio.gather(carrying, watching, return_exceptions=True)
                return ended.pop().result()
        finally:
            await asyncio.to_thread(ask.take_back, self._root)

    async def _carry(self, coming: Awaitable[Stream], there: asyncio.Future[Mux]) -> str:
        mux = Mux(await coming, silence_s=SILENCE_S[self.name])
        carrying = asyncio.create_task(mux.run())
        heard = asyncio.create_task(mux.heard.wait())
        try:
            await asyncio.wait([heard, carrying], return_when=asyncio.FIRST_COMPLETED)
            if mux.heard.is_set() and not there.done():
                there.set_result(mux)
            return await carrying
        finally:
            carrying.cancel()
            heard.cancel()
            await asyncio.gather(carrying, heard, return_exceptions=True)

    async def _until_over(self, ask: TransportRequest, there: asyncio.Future[Mux]) -> str:
        """Why nobody serves it: while we wait for that, the master may be back where it was."""
        while True:
            if why := await asyncio.to_thread(ask.why, self._root):
                return why
            if not await asyncio.to_thread(ask.stands, self._root):
                return "another relay was started, which was not asked"
            if not there.done() and not await asyncio.to_thread(self._relay_runs):
                return "the relay on the login node ended"
            await asyncio.sleep(LOOK_S)

    def _relay_runs(self) -> bool:
        """As far as it could say so: one that is killed leaves its notice."""
        return (self._root / NOTICE).exists()

    @asynccontextmanager
    async def _by_files(self, ask: TransportRequest) -> AsyncIterator[Awaitable[Stream]]:
        up, down = await asyncio.to_thread(box_folders, self._folder, ask.session, make=True)
        came: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()
        box = Box(up, down)
        came.set_result(box)
        try:
            yield came
        finally:
            box.close()

    @asynccontextmanager
    async def _by_srun(self, ask: TransportRequest) -> AsyncIterator[Awaitable[Stream]]:
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
            yield came
        finally:
            server.close()
            if came.done() and not came.cancelled():
                came.result().close()


def box_folders(folder: Path, session: str, *, make: bool = False) -> tuple[Path, Path]:
    """What the node writes, and what it reads."""
    box = folder / "box" / session
    if make:
        for one in (box.parent, box, box / "up", box / "down"):
            one.mkdir(mode=0o700, exist_ok=True)
    return box / "up", box / "down"
