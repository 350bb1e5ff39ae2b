"""The in-memory channel keeps what the Channel Protocol promises."""

from __future__ import annotations

import asyncio

import pytest

from agent_bootstrap.protocol import ChannelClosed, LogAck
from tests.fakes.memory_channel import memory_channel


def ack(n: int) -> LogAck:
    return LogAck(container_id="c", next_offset=n)


async def test_messages_arrive_in_order_both_ways() -> None:
    a, b = memory_channel(encode=False)
    for n in range(3):
        await a.send(ack(n))
        await b.send(ack(10 + n))
    assert [await b.receive() for _ in range(3)] == [ack(0), ack(1), ack(2)]
    assert [await a.receive() for _ in range(3)] == [ack(10), ack(11), ack(12)]


async def test_closing_ends_both_sides_after_what_was_sent() -> None:
    a, b = memory_channel(encode=False)
    await a.send(ack(0))
    waiting = asyncio.create_task(a.receive())
    await asyncio.sleep(0)
    await b.close()
    with pytest.raises(ChannelClosed):
        await waiting
    assert await b.receive() == ack(0)
    with pytest.raises(ChannelClosed):
        await b.receive()
    with pytest.raises(ChannelClosed):
        await a.send(ack(2))
