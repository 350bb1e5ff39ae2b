"""What every way to the master keeps to: it is a TCP connection to its port, and nothing is left of it."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent_bootstrap.channels.streams import Stream
from agent_bootstrap.channels.through_relay import RelayAddress, ThroughRelay
from tests.fakes import transports_world
from tests.fakes.transports_world import World, eventually, job_folder, until
from tests.sshd import MISSING, SSHD


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Here, and not in a test of another file."""
    yield
    gc.collect()


needs_sshd = [pytest.mark.slow, pytest.mark.skipif(SSHD is None, reason=MISSING)]
LIMIT_S = 60.0
WAYS = [
    "direct",
    "relay",
    pytest.param("srun", marks=pytest.mark.slow),
    pytest.param("files", marks=pytest.mark.slow),
    pytest.param("relay_over_ssh", marks=needs_sshd),
    pytest.param("ssh", marks=needs_sshd),
    pytest.param("ssh_to_relay", marks=needs_sshd),
]


@pytest.fixture(params=WAYS)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with (
        getattr(transports_world, request.param)(tmp_path) as world,
        asyncio.timeout(LIMIT_S),
    ):
        yield world


async def said(stream: Stream, count: int) -> bytes:
    data = bytearray()
    while len(data) < count and (more := await stream.read()):
        data += more
    return bytes(data)


async def rest(stream: Stream) -> bytes:
    """Empty for one that is broken."""
    data = bytearray()
    with suppress(OSError):
        while more := await stream.read():
            data += more
    return bytes(data)


@pytest.mark.slow
async def test_bytes_go_both_ways_and_each_direction_ends_by_itself(world: World) -> None:
    stream = await world.way.open()
    await stream.write(b"hello")
    assert await said(stream, 5) == b"hello"
    await stream.end()
    assert await rest(stream) == b"all"
    stream.close()


@pytest.mark.slow
async def test_much_comes_whole_on_many_streams_at_once(world: World) -> None:
    async def carry(number: int) -> None:
        stream = await world.way.open()
        data = hashlib.sha256(str(number).encode()).digest() * 65536

        async def send() -> None:
            await stream.write(data)
            await stream.end()

        sending = asyncio.create_task(send())
        came = await rest(stream)
        await sending
        stream.close()
        assert hashlib.sha256(came).digest() == hashlib.sha256(data + b"all").digest()

    await asyncio.gather(*map(carry, range(8)))


@pytest.mark.slow
async def test_a_stream_that_is_not_read_takes_a_bounded_amount_and_holds_up_no_other(
    world: World,
) -> None:
    world.port.may_read.clear()
    slow, quick = await world.way.open(), await world.way.open()
    taken = 0

    async def send() -> None:
        nonlocal taken
        await slow.write(b"wait")
        for _ in range(1024):
            await slow.write(bytes(64 * 1024))
            taken += 64 * 1024

    sending = asyncio.create_task(send())
    await quick.write(bytes(1024 * 1024))
    assert len(await said(quick, 1024 * 1024)) == 1024 * 1024
    assert not sending.done()
    world.port.may_read.set()
    assert len(await said(slow, 64 * 1024 * 1024)) >= 64 * 1024 * 1024
    await sending
    for stream in (slow, quick):
        stream.close()


@pytest.mark.slow
async def test_a_peer_that_is_killed_is_noticed_and_the_way_comes_back(world: World) -> None:
    stream = await world.way.open()
    await stream.write(b"hello")
    assert await said(stream, 5) == b"hello"
    await world.cut()
    assert await rest(stream) == b""
    stream.close()

    async def works() -> bool:
        with suppress(OSError):
            again = await world.way.open()
            try:
                await again.write(b"again")
                return await said(again, 5) == b"again"
            finally:
                again.close()
        return False

    await eventually(works)


@pytest.mark.slow
async def test_a_master_that_does_not_listen_is_no_stream(world: World) -> None:
    first = await world.way.open()
    first.close()
    await world.port.close()
    if world.says_refused:
        with pytest.raises(OSError, match="refused"):
            await world.way.open()
    else:
        stream = await world.way.open()
        assert await rest(stream) == b""
        stream.close()


@pytest.mark.slow
async def test_nothing_is_left_when_the_agent_goes(world: World) -> None:
    before = set(transports_world.sockets_left())
    stream = await world.way.open()
    await stream.write(b"hello")
    await world.way.close()
    await until(lambda: not world.between())
    assert not set(transports_world.sockets_left()) - before
    stream.close()


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[World]:
    async with transports_world.relay(tmp_path) as world, asyncio.timeout(LIMIT_S):
        yield world


async def test_a_relay_lets_in_only_who_has_the_token_of_a_job_that_is_there(
    relay: World, tmp_path: Path
) -> None:
    root = relay.root
    stranger = tmp_path / "elsewhere"
    shutil.copytree(root, stranger)
    job_folder(stranger, "of another job")
    with pytest.raises(OSError, match="its token is not good, or it is over"):
        await ThroughRelay(stranger / "wl-1" / "nodes" / "0").open()
    (stranger / "wl-2").mkdir()
    shutil.copytree(root / "wl-1" / "nodes", stranger / "wl-2" / "nodes")
    with pytest.raises(OSError, match="its token is not good, or it is over"):
        await ThroughRelay(stranger / "wl-2" / "nodes" / "0").open()
    kept = tmp_path / "kept" / "wl-1" / "nodes" / "0"
    shutil.copytree(root / "wl-1" / "nodes" / "0", kept)
    shutil.copy(root / "relay.json", tmp_path / "kept")
    (await ThroughRelay(kept).open()).close()
    shutil.rmtree(root / "wl-1")
    with pytest.raises(OSError, match="its token is not good, or it is over"):
        await ThroughRelay(kept).open()


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [b"", b"../../etc/0 00\n", b"wl-1/0\n", b"wl-1/0 00\n", b"\xff\n", b"x" * 70_000]
)
async def test_a_relay_hands_nothing_on_for_who_shows_nothing_good(
    relay: World, line: bytes
) -> None:
    root = relay.root
    notice = RelayAddress.read(root)
    reader, writer = await asyncio.open_connection("127.0.0.1", notice.port)
    assert (await reader.readline()).startswith(b"windlass-relay 1 ")
    with suppress(OSError):
        writer.write(line + b"GET / HTTP/1.1\r\n\r\n")
        writer.write_eof()
        answer = await reader.read()
        assert not answer or answer.startswith(b"no ")
    writer.close()
    assert relay.port.read == 0


async def test_the_token_of_a_job_is_not_sent(relay: World) -> None:
    """A stranger at the relay's address learns nothing that it could use there."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"windlass-relay 1 00\n")
        heard.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    root = relay.root
    port = server.sockets[0].getsockname()[1]
    (root / "relay.json").write_text(f'{{"hosts": ["127.0.0.1"], "port": {port}}}')
    with pytest.raises(OSError, match="it closed the connection"):
        await ThroughRelay(root / "wl-1" / "nodes" / "0").open()
    server.close()
    assert heard[0].startswith(b"wl-1/0 ")
    assert b"good" not in heard[0]


@pytest.mark.slow
async def test_a_relay_ends_with_the_master_that_started_it(relay: World) -> None:
    root = relay.root
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "agent_bootstrap.relay", "--root", str(root)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdout.readexactly(9)
    process.stdin.close()
    await process.wait()
    assert process.returncode == 0
