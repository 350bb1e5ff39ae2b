"""Pipes to the master whose other end stands still: noticed after a while, and nothing piles up meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from agent_bootstrap.channels import mux
from agent_bootstrap.channels.mux import HEAD, FrameKind, Mux
from agent_bootstrap.channels.streams import Stream
from provisioner.batch import pipes, relay_keeper
from provisioner.batch.pipes import LocalPipes, Pipe
from provisioner.batch.relay_keeper import RelayKeeper

LIMIT_S = 30


class Frozen:
    """A pipe: what its other end says, and what it takes."""

    def __init__(self, *says: bytes, takes: int = 0, for_ever: bytes = b"") -> None:
        self._says = list(says)
        self._takes = takes
        self._for_ever = for_ever

    async def read(self) -> bytes:
        if self._says:
            return self._says.pop(0)
        if not self._for_ever:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return self._for_ever

    async def write(self, data: bytes) -> None:
        if self._takes <= 0:
            await asyncio.Event().wait()
        self._takes -= 1

    async def end(self) -> None:
        """Nobody is told."""

    def close(self) -> None:
        """Nobody is told."""


async def why_it_ends(pipe: Stream, *, silence_s: float = 0.05) -> str:
    async with asyncio.timeout(LIMIT_S):
        return await Mux(pipe, dial=nobody, silence_s=silence_s).run()


async def nobody(_: bytes) -> Stream:
    raise ConnectionError("nobody listens")


async def test_a_peer_that_says_nothing_is_given_up() -> None:
    assert "was silent for 0.05 s" in await why_it_ends(Frozen(takes=10**6))


async def test_a_peer_that_takes_nothing_is_given_up_while_it_still_talks() -> None:
    talks = HEAD.pack(0, FrameKind.PING, 0)
    assert "took nothing for 0.5 s" in await why_it_ends(Frozen(for_ever=talks), silence_s=0.5)


@pytest.mark.slow
async def test_who_waits_for_a_frozen_peer_learns_of_it() -> None:
    pipe = Mux(Frozen(takes=1, for_ever=HEAD.pack(0, FrameKind.PING, 0)), silence_s=0.5)
    running = asyncio.create_task(pipe.run())
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(ConnectionError, match="took nothing"):
            await pipe.open()
        await running
        with pytest.raises(ConnectionError, match="took nothing"):
            await pipe.open()


async def test_a_peer_that_asks_and_takes_no_answer_fills_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mux, "MAX_STREAMS", 8)
    asks = b"".join(HEAD.pack(number, FrameKind.OPEN, 0) for number in range(1, 100))
    why = await why_it_ends(Frozen(asks), silence_s=LIMIT_S)
    assert why == "the pipe to the master broke: it asks for more than it takes answers"


class RelaysThatStandStill(LocalPipes):
    """Programs that never say a word and do not mind that their input ends."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Pipe] = []
        self.second = asyncio.Event()

    async def start(self, words: Sequence[str]) -> Pipe:
        pipe = await super().start(["sleep", "600"])
        self.started.append(pipe)
        if len(self.started) == 2:
            self.second.set()
        return pipe


async def test_a_relay_that_stands_still_is_killed_and_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_keeper, "Mux", partial(Mux, silence_s=0.05))
    monkeypatch.setattr(relay_keeper, "FIRST_RETRY_S", 0.0)
    monkeypatch.setattr(pipes, "END_S", 0.05)
    still = RelaysThatStandStill()
    keeper = asyncio.create_task(RelayKeeper(still, python="", root="", dial=nobody).run())
    async with asyncio.timeout(LIMIT_S):
        await still.second.wait()
        assert await still.started[0].read() == b"", "its output has ended, and so has it"
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
