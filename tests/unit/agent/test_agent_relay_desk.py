"""What a relay does with what nodes leave in the folder of the jobs, and with a pipe whose other end misbehaves."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_bootstrap.channels import desk
from agent_bootstrap.channels.asked import box_folders
from agent_bootstrap.channels.asks import FOLDER, Ask
from agent_bootstrap.channels.mux import HEAD, Kind, Mux
from agent_bootstrap.channels.streams import Stream
from tests.fakes.ways_world import job_folder, until

ASK = Ask(way="files", node="wl-1/0", session="0" * 16)


async def refused() -> Stream:
    raise ConnectionError("nobody listens")


@pytest.fixture
async def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """A desk serves it."""
    monkeypatch.setattr(desk, "LOOK_S", 0.02)
    (tmp_path / FOLDER).mkdir()
    running = asyncio.create_task(desk.Desk(tmp_path, refused).run())
    yield tmp_path
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def ask(root: Path) -> None:
    box_folders(job_folder(root), ASK.session, make=True)
    ASK.write(root)
    await until((root / FOLDER / "wl-1.0.taken").exists)


async def test_what_a_killed_node_asked_goes_with_its_job(root: Path) -> None:
    await ask(root)
    shutil.rmtree(root / "wl-1")
    await until(lambda: not any((root / FOLDER).iterdir()))


async def test_an_ask_that_is_none_stops_no_other(root: Path) -> None:
    (root / FOLDER / "7.json").write_text(f'{{"way": "files", "node": 7, "session": "{"0" * 16}"}}')
    await ask(root)


class Endless:
    """A pipe that opens a stream, and then says that it has sent bytes: none, for ever."""

    def __init__(self) -> None:
        self._first = HEAD.pack(1, Kind.OPEN, 0)

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        said, self._first = self._first, HEAD.pack(1, Kind.DATA, 0)
        return said

    async def write(self, data: bytes) -> None:
        """Nobody reads."""

    async def end(self) -> None:
        """Never."""

    def close(self) -> None:
        """Never."""


async def test_frames_without_bytes_are_not_kept() -> None:
    async def waiting() -> Stream:
        return await asyncio.get_running_loop().create_future()

    async with asyncio.timeout(30):
        why = await Mux(Endless(), dial=waiting).run()
    assert why == "the pipe to the master broke: a frame without bytes"
