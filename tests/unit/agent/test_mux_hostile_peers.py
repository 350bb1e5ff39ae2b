"""A peer that sends what it may not: its own pipe ends, what it led to is closed, and it fills no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.channels.mux import (
    CREDIT,
    HEAD,
    MAX_CREDIT,
    SMALL_BYTES,
    WINDOW_BYTES,
    FrameKind,
    Mux,
    MuxStream,
)
from agent_bootstrap.channels.streams import CHUNK_BYTES, Stream
from tests.fakes.memory_pipe import PipeEnd, memory_pipe

LIMIT_S = 60


def frame(number: int, kind: int, data: bytes = b"", *, length: int | None = None) -> bytes:
    """`length`: what it says of itself, if that is a lie."""
    return HEAD.pack(number, kind, len(data) if length is None else length) + data


class Onward(PipeEnd):
    """Where streams of the peer lead: nothing comes from there, and nothing is taken."""

    def __init__(self) -> None:
        super().__init__(lambda: 1 << 20)
        self.other = self

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().create_future()

    async def read(self) -> bytes:
        return await asyncio.get_running_loop().create_future()


class Attacked:
    """One end of a pipe, whose other end a test writes to. It has opened stream 1, and accepts others."""

    def __init__(self) -> None:
        near, self.peer = memory_pipe()
        self.onward: list[Onward] = []
        self.mux = Mux(near, dial=self._dial)
        self.running = asyncio.create_task(self.mux.run())

    async def _dial(self, _: bytes) -> Stream:
        self.onward.append(Onward())
        return self.onward[-1]

    async def opened(self, number: int = 1) -> Stream:
        """The next stream, which has this number."""
        opening = asyncio.create_task(self.mux.open(b"somewhere"))
        while number not in self.mux._streams:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        await self.peer.write(frame(number, FrameKind.CREDIT, CREDIT.pack(WINDOW_BYTES)))
        return await opening

    def held(self) -> int:
        """Bytes that wait for whoever reads them."""
        return sum(stream._unread for stream in self.mux._streams.values())

    async def end(self) -> str:
        self.peer.close()
        return await self.running


OPENED = 1
"""By us."""
OWN = 7
"""By the peer, where a test says so."""
PIECE = bytes(CHUNK_BYTES)


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([frame(OPENED, FrameKind.DATA, PIECE)] * 9, "more bytes than there was credit for"),
        ([frame(OPENED, FrameKind.DATA)], "a frame without bytes"),
        ([frame(OPENED, FrameKind.DATA, length=CHUNK_BYTES + 1)], "a frame of 65537 bytes"),
        ([frame(0, FrameKind.PING, length=2**32 - 1)], "a frame of 4294967295 bytes"),
        ([frame(OPENED, FrameKind.OPEN)], "a stream that it may not open"),
        ([frame(OWN, FrameKind.OPEN)] * 2, "a stream that it may not open"),
        ([frame(0, FrameKind.OPEN)], "a stream that it may not open"),
        ([frame(OPENED, FrameKind.CREDIT, CREDIT.pack(MAX_CREDIT))], "a credit of 2148007935"),
        ([frame(OPENED, FrameKind.CREDIT, b"12345")], "a credit that is none"),
        ([frame(OPENED, FrameKind.CREDIT)], "a credit that is none"),
        ([frame(OPENED, FrameKind.END)] * 2, "more of a direction that has ended"),
        (
            [frame(OPENED, FrameKind.END), frame(OPENED, FrameKind.DATA, b"x")],
            "more of a direction that has ended",
        ),
        ([frame(OPENED, 0)], "0 is not a valid FrameKind"),
        ([frame(9, 255)], "255 is not a valid FrameKind"),
    ],
)
async def test_what_no_end_may_send_ends_the_pipe(frames: Sequence[bytes], why: str) -> None:
    attacked = Attacked()
    async with asyncio.timeout(LIMIT_S):
        stream = await attacked.opened()
        await attacked.peer.write(b"".join(frames))
        ended = await attacked.running
        assert f"broke: {why}" in ended
        with pytest.raises(ConnectionError, match="broke"):
            await stream.write(b"x")
    assert attacked.peer.other.is_closed
    assert all(one.is_closed for one in attacked.onward)


@pytest.mark.parametrize(
    "frames",
    [
        [frame(9, kind, b"1234") for kind in (FrameKind.DATA, FrameKind.CREDIT)],
        [frame(9, FrameKind.RESET, b"no such stream"), frame(9, FrameKind.END)],
        [frame(0, FrameKind.RESET), frame(0, FrameKind.PING), frame(OPENED, FrameKind.PING)],
        [frame(OPENED, FrameKind.CREDIT, CREDIT.pack(0))],
    ],
)
async def test_what_crosses_the_end_of_a_stream_is_ignored(frames: Sequence[bytes]) -> None:
    attacked = Attacked()
    async with asyncio.timeout(LIMIT_S):
        stream = await attacked.opened()
        await attacked.peer.write(b"".join([*frames, frame(OPENED, FrameKind.DATA, b"after it")]))
        assert await stream.read() == b"after it"
        assert await attacked.end() == "the pipe to the master was closed"


async def test_what_is_said_first_goes_along_and_counts_for_the_first_credit() -> None:
    attacked = Attacked()
    said = frame(1, FrameKind.OPEN, b"there") + frame(1, FrameKind.DATA, b"hello")
    async with asyncio.timeout(LIMIT_S):
        opening = asyncio.create_task(attacked.mux.open(b"there", b"hello"))
        came = b""
        while said not in came:
            came += await attacked.peer.read()
        assert not opening.done()
        await attacked.peer.write(frame(1, FrameKind.CREDIT, CREDIT.pack(8)))
        writing = asyncio.create_task((await opening).write(b"world"))
        came = b""
        while not came.endswith(frame(1, FrameKind.DATA, b"wor")):
            came += await attacked.peer.read()
        assert not writing.done(), "5 of the 8 bytes had gone"
        await attacked.peer.write(frame(1, FrameKind.CREDIT, CREDIT.pack(2)))
        await writing
        await attacked.end()


async def test_a_reset_says_why_and_ends_one_stream_alone() -> None:
    attacked = Attacked()
    async with asyncio.timeout(LIMIT_S):
        stream = await attacked.opened()
        other = await attacked.opened(2)
        said = frame(OPENED, FrameKind.DATA, b"last words") + frame(OPENED, FrameKind.RESET, b"no")
        await attacked.peer.write(said)
        assert await stream.read() == b"last words"
        with pytest.raises(ConnectionError, match=r"^no$"):
            await stream.read()
        with pytest.raises(ConnectionError, match=r"^no$"):
            await stream.write(b"x")
        await attacked.peer.write(frame(2, FrameKind.DATA, b"still here"))
        assert await other.read() == b"still here"
        await attacked.end()


async def test_very_small_pieces_are_kept_together() -> None:
    attacked = Attacked()
    async with asyncio.timeout(LIMIT_S):
        stream = await attacked.opened()
        assert isinstance(stream, MuxStream)
        await attacked.peer.write(frame(OPENED, FrameKind.DATA, b"x") * 20_000)
        while stream._unread < 20_000:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        assert len(stream._came) <= 20_000 // SMALL_BYTES + 1
        await attacked.end()


class TakesNothing(PipeEnd):
    """The peer reads none of what this end writes."""

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().create_future()


async def test_one_that_asks_and_asks_and_takes_no_answer_loses_its_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent_bootstrap.channels.mux.MAX_STREAMS", 8)
    near, peer = TakesNothing(lambda: 1 << 20), PipeEnd(lambda: 1 << 20)
    near.other, peer.other = peer, near

    async def dial(_: bytes) -> Stream:
        return memory_pipe()[0]

    running = asyncio.create_task(Mux(near, dial=dial).run())
    for number in range(1, 200):
        asked = frame(number, FrameKind.OPEN) + frame(number, FrameKind.DATA, b"first")
        try:
            await peer.write(asked + frame(number, FrameKind.RESET))
        except ConnectionError:
            break
        for _ in range(20):
            await asyncio.sleep(0)
    peer.close()
    async with asyncio.timeout(LIMIT_S):
        assert "asks for more than it takes answers" in await running


async def test_a_flood_of_small_frames_lets_others_have_their_turn() -> None:
    attacked = Attacked()
    turns = 0

    async def another() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with asyncio.timeout(LIMIT_S):
        stream = await attacked.opened()
        await attacked.peer.write(
            frame(0, FrameKind.PING) * 10_000 + frame(OPENED, FrameKind.DATA, b"x")
        )
        going = asyncio.create_task(another())
        assert await stream.read() == b"x"
        going.cancel()
        await attacked.end()
    assert turns > 100


frames = st.builds(
    frame,
    st.integers(0, 4),
    st.sampled_from([*FrameKind, 0, 77]),
    st.one_of(
        st.binary(max_size=8),
        st.sampled_from([PIECE, CREDIT.pack(1), CREDIT.pack(WINDOW_BYTES), CREDIT.pack(2**32 - 1)]),
    ),
    length=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 2**32 - 1)),
)
legal = st.builds(
    frame,
    st.integers(0, 4),
    st.sampled_from(list(FrameKind)),
    st.sampled_from([b"x", b"word", PIECE, CREDIT.pack(WINDOW_BYTES)]),
)
attacks = st.lists(st.one_of(legal, legal, frames, st.binary(max_size=40)), max_size=40)


@given(attacks, st.integers(0, 40))
def test_whatever_a_peer_sends_it_ends_nothing_but_its_own_pipe(
    said: list[bytes], cut: int
) -> None:
    """`cut`: bytes that are missing at the end, so that the last frame is not whole."""

    async def play() -> None:
        attacked = Attacked()
        opening = asyncio.create_task(attacked.mux.open())
        everything = b"".join(said)
        async with asyncio.timeout(LIMIT_S):
            for start in range(0, len(everything) - cut, 1000):
                if attacked.running.done():
                    break
                end = min(start + 1000, len(everything) - cut)
                await attacked.peer.write(everything[start:end])
                assert attacked.held() <= 5 * WINDOW_BYTES
            assert await attacked.end()
            await asyncio.gather(opening, return_exceptions=True)
        assert not attacked.mux._streams
        assert not attacked.mux._tasks
        assert not attacked.mux._outgoing
        assert all(one.is_closed for one in attacked.onward)

    asyncio.run(play())
