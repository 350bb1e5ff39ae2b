"""The relay's end of transports that nodes request: Slurm's own pipe into a job, and message folders."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from agent_bootstrap.channels.file_pipes import Box
from agent_bootstrap.channels.mux import Dial, Mux
from agent_bootstrap.channels.requested_transport import SILENCE_S, box_folders
from agent_bootstrap.channels.standard_streams import PipeStream
from agent_bootstrap.channels.streams import CHUNK_BYTES
from agent_bootstrap.channels.transport_requests import TransportRequest, asks_in, forget_taken

LOOK_S = 1.0
MAX_PIPES = 64
"""srun has a process here and a step there for each: this is no way for hundreds of nodes."""
LAST_WORDS = 2000
END_S = 5.0


class TransportServer:
    """`run` until cancelled."""

    def __init__(self, root: Path, dial: Dial) -> None:
        self._root = root
        self._dial = dial
        self._served: dict[TransportRequest, asyncio.Task[None]] = {}

    async def run(self) -> None:
        await asyncio.to_thread(forget_taken, self._root)
        try:
            while True:
                self._take(await asyncio.to_thread(_standing, self._root))
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._served.values():
                task.cancel()
            await asyncio.gather(*self._served.values(), return_exceptions=True)

    def _take(self, asks: set[TransportRequest]) -> None:
        for ask in set(self._served) - asks:
            self._served.pop(ask).cancel()
        for ask in asks - set(self._served):
            self._served[ask] = asyncio.create_task(self._serve(ask))

    async def _serve(self, ask: TransportRequest) -> None:
        """One time: whoever wants it again asks again."""
        await asyncio.to_thread(ask.take, self._root)
        folder = await asyncio.to_thread(ask.folder, self._root)
        if folder is None:
            return
        if sum(not task.done() for task in self._served.values()) > MAX_PIPES:
            why = f"{MAX_PIPES} nodes use it already"
        else:
            why = await (self._srun if ask.way == "srun" else self._files)(ask, folder)
        await asyncio.to_thread(ask.answer, self._root, why)

    async def _files(self, ask: TransportRequest, folder: Path) -> str:
        up, down = box_folders(folder, ask.session)
        return await Mux(Box(down, up), dial=self._dial, silence_s=SILENCE_S["files"]).run()

    async def _srun(self, ask: TransportRequest, folder: Path) -> str:
        program = (sys.executable, "-P", "-m", "agent_bootstrap.pipe", str(folder))
        try:
            process = await asyncio.create_subprocess_exec(
                *("srun", f"--jobid={ask.job_id}", f"--nodelist={ask.host}", "--nodes=1"),
                *("--ntasks=1", "--overlap", "--mem=0", "--gres=none", "--quiet"),
                # What goes through is no text: nothing may wait for the end of a line.
                *("--unbuffered", "--kill-on-bad-exit=1", *program),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return f"srun cannot be run on the login node: {error.strerror}"
        try:
            return await self._carry(process)
        finally:
            await _end(process)

    async def _carry(self, process: asyncio.subprocess.Process) -> str:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            return "no pipes"
        saying = asyncio.create_task(_last_words(process.stderr))
        try:
            why = await Mux(PipeStream(process.stdout, process.stdin), dial=self._dial).run()
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    why = await saying or why
            return why
        finally:
            saying.cancel()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        pass  # it stands still
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()


async def _last_words(errors: asyncio.StreamReader) -> str:
    """The last line, when it ends. All is read: a program whose words nobody takes stands still."""
    said = b""
    while more := await errors.read(CHUNK_BYTES):
        said = (said + more)[-LAST_WORDS:]
    lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


def _standing(root: Path) -> set[TransportRequest]:
    """What nodes of jobs ask that are there. A node that was killed takes nothing back: that is removed. Blocks."""
    standing = set()
    for ask in asks_in(root):
        is_over = False
        with suppress(OSError):
            is_over = ask.folder(root) is None
        if is_over:
            ask.take_back(root)
        else:
            standing.add(ask)
    return standing
