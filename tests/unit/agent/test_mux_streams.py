"""Many streams over one pipe: what each carries, whatever the others do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.channels.mux import WINDOW_BYTES, Mux
from agent_bootstrap.channels.streams import Stream
from tests.fakes.memory_pipe import PipeEnd, memory_pipe

LIMIT_S = 60


@dataclass(frozen=True)
class Use:
    """What one user of the pipe does with its stream, which leads to an echo."""

    writes: tuple[int, ...]
    """Bytes of each."""
    ends: bool
    """It says that it has sent all and reads to the end; else it leaves at once, whatever is on its way."""


uses = st.builds(
    Use,
    st.lists(st.sampled_from([1, 100, 70_000, 3 * WINDOW_BYTES // 2]), max_size=4).map(tuple),
    st.booleans(),
)


class Echo:
    """What streams lead to. `targets` are those that were asked for."""

    def __init__(self) -> None:
        self.targets: list[bytes] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def dial(self, target: bytes) -> Stream:
        if target == b"nowhere":
            raise ConnectionError("nobody is there")
        self.targets.append(target)
        near, far = memory_pipe()
        self._tasks.append(asyncio.create_task(_echo(far)))
        return near


async def _echo(end: PipeEnd) -> None:
    with suppress(OSError):
        while data := await end.read():
            await end.write(data)
        await end.end()


async def _use(mux: Mux, number: int, use: Use) -> None:
    sent = [Random(f"{number}.{n}").randbytes(size) for n, size in enumerate(use.writes)]
    stream = await mux.open(b"%d" % number)
    if not use.ends:
        for data in sent[:1]:
            await stream.write(data[:1000])
        stream.close()
        return

    async def write() -> None:
        for data in sent:
            await stream.write(data)
        await stream.end()

    writing = asyncio.create_task(write())
    came = b""
    while data := await stream.read():
        came += data
    await writing
    assert came == b"".join(sent)
    stream.close()


@given(st.lists(uses, min_size=1, max_size=6), st.integers(0, 2**32))
def test_each_gets_its_own_bytes_in_order_whatever_others_do(several: list[Use], seed: int) -> None:
    pieces = Random(seed)

    async def play() -> None:
        near, far = memory_pipe(lambda: pieces.choice([7, 5_000, 100_000]))
        echo = Echo()
        here, there = Mux(near), Mux(far, dial=echo.dial)
        running = [asyncio.create_task(mux.run()) for mux in (here, there)]
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*(_use(here, n, use) for n, use in enumerate(several)))
        assert sorted(echo.targets) == sorted(b"%d" % n for n in range(len(several)))
        near.close()
        await asyncio.gather(*running)

    asyncio.run(play())


async def test_one_that_nobody_reads_takes_no_more_than_its_window_and_delays_nobody() -> None:
    near, far = memory_pipe()
    flooded = asyncio.Event()
    written = 0

    async def dial(target: bytes) -> Stream:
        one, other = memory_pipe()

        async def flood() -> None:
            nonlocal written
            with suppress(OSError):
                while True:
                    await other.write(bytes(10_000))
                    written += 10_000
                    if written >= WINDOW_BYTES:
                        flooded.set()

        if target == b"flood":
            tasks.append(asyncio.create_task(flood()))
        else:
            tasks.append(asyncio.create_task(_echo(other)))
        return one

    here, there = Mux(near), Mux(far, dial=dial)
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(mux.run()) for mux in (here, there)]
    async with asyncio.timeout(LIMIT_S):
        unread = await here.open(b"flood")
        await flooded.wait()
        await _use(here, 1, Use((70_000, 70_000), ends=True))
        first = await unread.read()
        assert first
        assert unread._unread + len(first) <= WINDOW_BYTES  # type: ignore[attr-defined]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_refusal_is_told_in_the_words_of_the_other_end() -> None:
    near, far = memory_pipe()
    here, there = Mux(near), Mux(far, dial=Echo().dial)
    running = [asyncio.create_task(mux.run()) for mux in (here, there)]
    with pytest.raises(ConnectionError, match="nobody is there"):
        await here.open(b"nowhere")
    here.end("that was all")
    assert (await asyncio.gather(*running))[0] == "that was all"
    with pytest.raises(ConnectionError, match="that was all"):
        await here.open(b"1")
