"""Many streams over one pipe: what each carries, whatever the others do, and whatever happens to the pipe."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.channels.mux import CREDIT, HEAD, WINDOW_BYTES, FrameKind, Mux
from agent_bootstrap.channels.streams import CHUNK_BYTES, Stream
from tests.fakes.memory_pipe import PipeEnd, memory_pipe

LIMIT_S = 60


class Reads(StrEnum):
    """When a user of the pipe reads what comes back."""

    AT_ONCE = "at once"
    LAST = "when all others are done"
    NEVER = "never: it leaves, whatever is on its way"


@dataclass(frozen=True)
class Use:
    """What one user of the pipe does with its stream, which leads to an echo."""

    writes: tuple[int, ...]
    """Bytes of each."""
    reads: Reads = Reads.AT_ONCE
    first_goes_along: bool = False
    """With what opens the stream."""

    def sent(self, number: int) -> list[bytes]:
        return [Random(f"{number}.{n}").randbytes(size) for n, size in enumerate(self.writes)]


uses = st.builds(
    Use,
    st.lists(st.sampled_from([1, 100, 70_000, 3 * WINDOW_BYTES // 2]), max_size=4).map(tuple),
    st.sampled_from(Reads),
    st.booleans(),
)


class Echo:
    """What streams lead to. `targets` are those that were asked for."""

    def __init__(self) -> None:
        self.targets: list[bytes] = []
        self.ends: list[PipeEnd] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def dial(self, target: bytes) -> Stream:
        if target == b"nowhere":
            raise ConnectionError("nobody is there")
        self.targets.append(target)
        near, far = memory_pipe()
        self.ends.append(near)
        self._tasks.append(asyncio.create_task(_echo(far)))
        return near


async def _echo(end: PipeEnd) -> None:
    with suppress(OSError):
        while data := await end.read():
            await end.write(data)
        await end.end()


@dataclass
class Ledger:
    """What both ends of a pipe send, frame by frame. Raises AssertionError for what no end may send."""

    credit: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By who sends, and the stream: bytes that may still be sent."""
    over: set[tuple[str, int]] = field(default_factory=set)
    """Directions that have ended."""
    accepted: set[tuple[str, int]] = field(default_factory=set)
    _unread: dict[str, bytes] = field(default_factory=dict)

    def see(self, who: str, data: bytes) -> None:
        unread = self._unread.get(who, b"") + data
        while len(unread) >= HEAD.size:
            number, kind, length = HEAD.unpack_from(unread)
            if len(unread) < HEAD.size + length:
                break
            self._frame(who, number, FrameKind(kind), unread[HEAD.size : HEAD.size + length])
            unread = unread[HEAD.size + length :]
        self._unread[who] = unread

    def _frame(self, who: str, number: int, kind: FrameKind, data: bytes) -> None:
        mine, other = (who, number), ("there" if who == "here" else "here", number)
        match kind:
            case FrameKind.OPEN:
                assert who == "here", "the end that accepts opens none"
                assert other not in self.credit, "a number of a stream comes again"
                self.credit[other] = WINDOW_BYTES
                self.credit[mine] = (
                    CHUNK_BYTES  # what may go along, and is part of the first credit
                )
            case FrameKind.CREDIT:
                if other not in self.accepted and who == "there":
                    self.accepted.add(other)
                    self.credit[other] -= CHUNK_BYTES
                self.credit[other] += CREDIT.unpack(data)[0]
                assert self.credit[other] <= WINDOW_BYTES
            case FrameKind.DATA:
                assert mine not in self.over, "bytes after the end"
                self.credit[mine] -= len(data)
                assert self.credit[mine] >= 0, "more in flight than there is credit for"
            case FrameKind.END | FrameKind.RESET:
                assert mine not in self.over
                self.over.add(mine)


class Watched:
    """Implements `Stream`: one end of a pipe, of which a ledger sees all that is written.

    `cut_after`: so many bytes of this end pass, and the pipe breaks.
    """

    def __init__(self, end: PipeEnd, who: str, ledger: Ledger, cut_after: int | None) -> None:
        self._end = end
        self._who = who
        self._ledger = ledger
        self._left = cut_after

    async def read(self) -> bytes:
        return await self._end.read()

    async def write(self, data: bytes) -> None:
        self._ledger.see(self._who, data)
        if self._left is not None and len(data) > self._left:
            data, self._left = data[: self._left], 0
            await self._end.write(data)
            self._end.close()
            raise ConnectionError("the cable was cut")
        if self._left is not None:
            self._left -= len(data)
        await self._end.write(data)

    async def end(self) -> None:
        await self._end.end()

    def close(self) -> None:
        self._end.close()


class Pair:
    """Two ends of a pipe: streams are opened `here`, and lead to an echo `there`."""

    def __init__(
        self, seed: int = 0, *, cut_here: int | None = None, cut_there: int | None = None
    ) -> None:
        pieces = Random(seed)
        near, far = memory_pipe(lambda: pieces.choice([7, 5_000, 100_000]))
        self.ledger = Ledger()
        self.echo = Echo()
        self.pipe = Watched(near, "here", self.ledger, cut_here)
        self.here = Mux(self.pipe)
        self.there = Mux(Watched(far, "there", self.ledger, cut_there), dial=self.echo.dial)
        self.running = [asyncio.create_task(mux.run()) for mux in (self.here, self.there)]

    async def until_no_stream_is_left(self) -> None:
        while self.here._streams or self.there._streams:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)

    async def close(self) -> None:
        self.pipe.close()
        await asyncio.gather(*self.running)


async def _use(mux: Mux, number: int, use: Use, go: asyncio.Event) -> None:
    """Raises OSError if it breaks, AssertionError for a byte that is not the one that was sent."""
    sent = use.sent(number)
    first, rest = (sent[0], sent[1:]) if use.first_goes_along and sent else (b"", sent)
    stream = await mux.open(b"%d" % number, first)
    if use.reads is Reads.NEVER:
        for data in rest[:1]:
            await stream.write(data[:1000])
        stream.close()
        return

    async def write() -> None:
        for data in rest:
            await stream.write(data)
        await stream.end()

    async def read() -> None:
        if use.reads is Reads.LAST:
            await go.wait()
        whole, came = b"".join(sent), 0
        while data := await stream.read():
            assert data == whole[came : came + len(data)]
            came += len(data)
        assert came == len(whole), "it ended, and something is missing"

    both = [asyncio.create_task(write()), asyncio.create_task(read())]
    try:
        await asyncio.gather(*both)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        stream.close()


async def _use_all(pair: Pair, several: list[Use]) -> list[BaseException | None]:
    """How each ended. Those that read last do so when all others are done."""
    go = asyncio.Event()
    tasks = [asyncio.create_task(_use(pair.here, n, use, go)) for n, use in enumerate(several)]
    at_once = [
        task for task, use in zip(tasks, several, strict=True) if use.reads is not Reads.LAST
    ]
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*at_once, return_exceptions=True)
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)


@given(st.lists(uses, min_size=1, max_size=6), st.integers(0, 2**32))
def test_each_gets_its_own_bytes_in_order_whatever_others_do(several: list[Use], seed: int) -> None:
    async def play() -> None:
        pair = Pair(seed)
        assert await _use_all(pair, several) == [None] * len(several)
        assert sorted(pair.echo.targets) == sorted(b"%d" % n for n in range(len(several)))
        async with asyncio.timeout(LIMIT_S):
            await pair.until_no_stream_is_left()
        assert all(end.is_closed for end in pair.echo.ends)
        await pair.close()

    asyncio.run(play())


@given(
    st.lists(uses, min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.booleans(),
    st.one_of(st.integers(0, 200), st.integers(0, 3 * WINDOW_BYTES)),
)
def test_a_pipe_that_is_cut_ends_all_streams_and_no_byte_is_wrong(
    several: list[Use], seed: int, is_here: bool, cut: int
) -> None:
    async def play() -> None:
        pair = Pair(seed, **{"cut_here" if is_here else "cut_there": cut})
        ends = await _use_all(pair, several)
        wrong = [end for end in ends if end is not None and not isinstance(end, OSError)]
        assert wrong == []
        if any(ends):  # it was cut while they used it
            async with asyncio.timeout(LIMIT_S):
                await asyncio.gather(*pair.running)
        await pair.close()
        assert not pair.here._streams
        assert not pair.there._streams
        assert all(end.is_closed for end in pair.echo.ends)
        with pytest.raises(ConnectionError):
            await pair.here.open(b"more")

    asyncio.run(play())


async def test_whoever_waits_when_the_pipe_is_lost_is_told_so() -> None:
    pair = Pair()
    streams = [await pair.here.open(b"%d" % n) for n in range(3)]
    waiting = [asyncio.create_task(stream.read()) for stream in streams]
    waiting.append(asyncio.create_task(_fill(streams[0])))
    await asyncio.sleep(0)
    pair.here.end("the agent is gone")
    async with asyncio.timeout(LIMIT_S):
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*pair.running)
    assert [str(end) for end in ends] == ["the agent is gone"] * 4


async def _fill(stream: Stream) -> bytes:
    while True:
        await stream.write(bytes(100_000))


async def test_one_that_nobody_reads_takes_no_more_than_its_window_and_delays_nobody() -> None:
    pair = Pair()
    async with asyncio.timeout(LIMIT_S):
        unread = await pair.here.open(b"flood")
        await unread.write(bytes(3 * WINDOW_BYTES))
        while pair.ledger.credit["there", 1]:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        await _use(pair.here, 1, Use((70_000, 70_000)), asyncio.Event())
        assert unread._unread == WINDOW_BYTES  # type: ignore[attr-defined]
        unread.close()
        await pair.until_no_stream_is_left()
    await pair.close()


async def test_a_refusal_is_told_in_the_words_of_the_other_end() -> None:
    pair = Pair()
    with pytest.raises(ConnectionError, match="nobody is there"):
        await pair.here.open(b"nowhere")
    asked = await pair.here.open(b"nowhere", b"what is asked goes along")
    with pytest.raises(ConnectionError, match="nobody is there"):
        await asked.read()
    pair.here.end("that was all")
    assert (await asyncio.gather(*pair.running))[0] == "that was all"
    with pytest.raises(ConnectionError, match="that was all"):
        await pair.here.open(b"1")


async def test_one_who_is_cancelled_in_the_middle_of_a_write_breaks_nobody() -> None:
    near, far = memory_pipe(lambda: 500)  # a frame takes more than a hundred steps
    here, there = Mux(near), Mux(far, dial=Echo().dial)
    running = [asyncio.create_task(mux.run()) for mux in (here, there)]
    async with asyncio.timeout(LIMIT_S):
        stream = await here.open(b"cancelled")
        writing = asyncio.create_task(_fill(stream))
        for _ in range(20):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        stream.close()
        await _use(here, 1, Use((70_000,)), asyncio.Event())
    near.close()
    await asyncio.gather(*running)


async def test_bytes_after_the_end_are_refused_to_whoever_writes_them() -> None:
    pair = Pair()
    async with asyncio.timeout(LIMIT_S):
        stream = await pair.here.open(b"1")
        await stream.end()
        with pytest.raises(ConnectionError, match="ended this direction"):
            await stream.write(b"more")
        assert await stream.read() == b""
        await _use(pair.here, 1, Use((100,)), asyncio.Event())
    await pair.close()
