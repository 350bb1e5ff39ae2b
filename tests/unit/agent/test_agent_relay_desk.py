"""What a relay does with what nodes leave in the folder of the jobs, and with a pipe whose other end misbehaves."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from agent_bootstrap import relay
from agent_bootstrap.channels import requested_transport as asked_module
from agent_bootstrap.channels import transport_requests as asks
from agent_bootstrap.channels import transport_server as desk
from agent_bootstrap.channels.mux import HEAD, FrameKind, Mux
from agent_bootstrap.channels.requested_transport import RequestedTransport, box_folders
from agent_bootstrap.channels.streams import Stream
from agent_bootstrap.channels.tickets import NOTICE
from agent_bootstrap.channels.transport_requests import FOLDER, TransportRequest
from tests.fakes.transports_world import eventually, job_folder, until

ASK = TransportRequest(way="files", node="wl-1/0", session="0" * 16)


async def refused() -> Stream:
    raise ConnectionError("nobody listens")


@pytest.fixture
async def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """A desk serves it."""
    monkeypatch.setattr(desk, "LOOK_S", 0.02)
    (tmp_path / FOLDER).mkdir()
    running = asyncio.create_task(desk.TransportServer(tmp_path, refused).run())
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


def node(root: Path, way: Literal["srun", "files"] = "files") -> RequestedTransport:
    """Of the job that `job_folder` makes, with a relay's notice there."""
    (root / NOTICE).write_text('{"hosts": [], "port": 1}')
    return RequestedTransport(way, job_folder(root), {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"})


async def test_a_node_that_asks_for_another_way_keeps_that_ask(tmp_path: Path) -> None:
    """What it asked first is over later, and was in files of the same names."""
    (tmp_path / FOLDER).mkdir()
    first = replace(ASK, way="srun", session="1" * 16, job_id="7", host="n1")
    first.write(tmp_path)
    first.take(tmp_path)
    ASK.write(tmp_path)
    first.take_back(tmp_path)
    assert ASK.stands(tmp_path)
    assert not first.stands(tmp_path)
    ASK.take(tmp_path)
    first.take_back(tmp_path)
    assert ASK.stands(tmp_path)
    ASK.take_back(tmp_path)
    assert not any((tmp_path / FOLDER).iterdir())


@pytest.mark.parametrize("way", ["srun", "files"])
async def test_no_relay_is_asked_where_none_runs(
    tmp_path: Path, way: Literal["srun", "files"]
) -> None:
    asked = node(tmp_path, way)
    (tmp_path / NOTICE).unlink()
    with pytest.raises(ConnectionError, match="no relay runs on the login node"):
        await asked.open()


@pytest.mark.parametrize("way", ["srun", "files"])
@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (lambda root: (root / NOTICE).unlink(), "the relay on the login node ended"),
        (lambda root: asks.forget_taken(root), "another relay was started"),
        (lambda root: [a.answer(root, "64 nodes") for a in asks.asks_in(root)], "64 nodes"),
    ],
)
async def test_a_node_waits_no_longer_than_a_relay_may_answer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Literal["srun", "files"],
    happens: Callable[[Path], object],
    why: str,
) -> None:
    """Its master, which is back, would give up what runs there."""
    monkeypatch.setattr(asked_module, "LOOK_S", 0.02)
    monkeypatch.setattr(asked_module, "ANSWER_S", {way: 3600.0})
    asked = node(tmp_path, way)
    opening = asyncio.create_task(asked.open())
    await until(lambda: any(asks.asks_in(tmp_path)))
    (standing,) = asks.asks_in(tmp_path)
    standing.take(tmp_path)
    happens(tmp_path)
    async with asyncio.timeout(90):
        with pytest.raises(ConnectionError, match=why):
            await opening
    assert not any((tmp_path / FOLDER).iterdir())
    await asked.close()


SRUN_WITH_MUCH_TO_SAY = """#!/bin/sh
head -c 1000000 /dev/zero | tr '\\0' 'x' >&2
echo >&2
echo "srun: error: Unable to create step for job 7: Job/step already completing" >&2
exit 1
"""


async def test_an_srun_with_much_to_say_is_heard_to_its_end(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says and nobody reads would keep it waiting for ever."""
    program = tmp_path / "bin" / "srun"
    program.parent.mkdir()
    program.write_text(SRUN_WITH_MUCH_TO_SAY)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    job_folder(root)
    ask_ = TransportRequest(way="srun", node="wl-1/0", session="0" * 16, job_id="7", host="n1")
    ask_.write(root)
    await until(lambda: "already completing" in ask_.why(root))


async def test_an_srun_that_stands_still_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "END_S", 0.05)
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", "trap '' TERM; echo; exec sleep 600", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    await desk._end(process)
    assert await process.wait() == -signal.SIGKILL


async def test_connections_that_show_nothing_keep_out_their_own_address_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MAX_UNKNOWN", 2)
    here = relay.Relay(tmp_path, Mux(Silent()))
    serving = asyncio.create_task(here.serve(0, []))
    await until((tmp_path / "relay.json").exists)
    port = json.loads((tmp_path / "relay.json").read_text())["port"]

    async def greeting(of: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(of, 0))
        opened.append(writer)
        return await reader.readline()

    opened: list[asyncio.StreamWriter] = []
    said = [await greeting("127.0.0.2") for _ in range(3)]
    assert [bool(one) for one in said] == [True, True, False]
    assert await greeting("127.0.0.3")
    opened[0].close()

    async def again() -> bool:
        return bool(await greeting("127.0.0.2"))

    await eventually(again)
    for writer in opened:
        writer.close()
        await writer.wait_closed()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


class Silent:
    """A pipe with nobody at its other end."""

    async def read(self) -> bytes:
        return await asyncio.get_running_loop().create_future()

    async def write(self, data: bytes) -> None:
        """Nobody reads."""

    async def end(self) -> None:
        """Never."""

    def close(self) -> None:
        """Never."""


class Endless:
    """A pipe that opens a stream, and then says that it has sent bytes: none, for ever."""

    def __init__(self) -> None:
        self._first = HEAD.pack(1, FrameKind.OPEN, 0)

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        said, self._first = self._first, HEAD.pack(1, FrameKind.DATA, 0)
        return said

    async def write(self, data: bytes) -> None:
        """Nobody reads."""

    async def end(self) -> None:
        """Never."""

    def close(self) -> None:
        """Never."""


async def test_frames_without_bytes_are_not_kept() -> None:
    async def waiting(_: bytes) -> Stream:
        return await asyncio.get_running_loop().create_future()

    async with asyncio.timeout(30):
        why = await Mux(Endless(), dial=waiting).run()
    assert why == "the pipe to the master broke: a frame without bytes"


class Stuck:
    """A pipe that opens a stream, takes nothing from then on, and ends when `is_over`."""

    def __init__(self) -> None:
        self._opens = [HEAD.pack(1, FrameKind.OPEN, 0)]
        self.is_over = asyncio.Event()

    async def read(self) -> bytes:
        if self._opens:
            return self._opens.pop()
        await self.is_over.wait()
        return b""

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().create_future()

    async def end(self) -> None:
        """Never."""

    def close(self) -> None:
        """Never."""


class Onward(Silent):
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_a_pipe_that_ends_before_a_stream_is_accepted_closes_its_connection() -> None:
    pipe, onward, dialled = Stuck(), Onward(), asyncio.Event()

    async def dial(_: bytes) -> Stream:
        dialled.set()
        return onward

    running = asyncio.create_task(Mux(pipe, dial=dial).run())
    async with asyncio.timeout(30):
        await dialled.wait()
        pipe.is_over.set()
        await running
    assert onward.is_closed
