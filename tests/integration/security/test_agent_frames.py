"""Frames that no agent may send, over the master's real socket: the connection ends, both sides say why."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent_sockets import Served, hello, join, served
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agent_bootstrap.agent.connection.websocket import WebSocketChannel
from agent_bootstrap.frames import MAX_FROM_AGENT_BYTES, SMALL_BYTES
from agent_bootstrap.protocol import ChannelClosed
from tests.fakes.agents_world import TOKEN
from tests.fakes.api_world import api_world


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[Served]:
    async with api_world(tmp_path) as world:
        await world.login()
        async with served(world) as master:
            yield master


async def connected(master: Served, agent_id: str = "a9", **more: Any) -> ClientConnection:
    connection = await master.dial(token=TOKEN, credential=f"of {agent_id}")
    answer = await join(connection, hello(agent_id, **more))
    assert answer["type"] == "welcome"
    return connection


@pytest.mark.parametrize("pool", ["default", "no-such"])
@pytest.mark.parametrize(("token", "credential"), [("", ""), ("wrong", ""), ("", "made up")])
async def test_strangers_are_turned_away_before_anything_of_them_is_read(
    token: str, credential: str, pool: str, master: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await master.dial(token=token, credential=credential, pool=pool)
    assert refused.value.response.status_code == 403
    assert not [r for r in caplog.records if r.levelno > logging.INFO]


async def test_an_unknown_pool_is_named_to_those_who_may_join(master: Served) -> None:
    connection = await master.dial(token=TOKEN, pool="no-such")
    answer = await join(connection, hello("a9", pool="no-such"))
    assert answer["reason"] == "there is no resource pool 'no-such'"
    await connection.close()


BAD_FRAMES: list[tuple[str | bytes, int, str]] = [
    ('{"type":"heartbeat","x":"' + "x" * SMALL_BYTES + '"}', 1008, "bytes as 'heartbeat'"),
    ('{"type":"heartbeat","x":' + "[" * 500 + "]" * 500 + "}", 1008, "recursion limit"),
    ('{"type":"leaving","at":"9999-12-31T23:59:59Z","reason":"x"}', 1008, "1970 and 2200"),
    ('{"type":"leaving","at":NaN,"reason":"x"}', 1008, "leaving.at"),
    ('{"type":"heartbeat","notes":[' + '"x",' * 99 + '"x"]}', 1008, "heartbeat.notes"),
    ("no json", 1008, "cannot be read"),
    (b"\xff\xfe", 1008, "cannot be read"),
    (json.dumps(hello("a9")), 1008, "out of place: Hello"),
    ("x" * (MAX_FROM_AGENT_BYTES + 1), 1009, "exceeds limit"),
]


@pytest.mark.parametrize(("frame", "code", "why"), BAD_FRAMES)
async def test_a_frame_that_breaks_the_rules_ends_the_connection_with_the_reason_in_both_logs(
    frame: str | bytes, code: int, why: str, master: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    connection = await connected(master)
    await connection.send(frame)
    with pytest.raises(ChannelClosed, match=why) as closed:
        await WebSocketChannel(connection).receive()
    assert connection.close_code == code
    assert "the master closed the connection: " in str(closed.value)
    while not (told := [r for r in caplog.messages if "agent disconnected: a9" in r]):  # noqa: ASYNC110 - logs tell nobody
        await asyncio.sleep(0.005)
    assert why in told[0]
    assert not [r for r in caplog.records if r.exc_info]
    await (await connected(master)).close()


@pytest.mark.parametrize("count", [1025, 30_000])
async def test_a_hello_with_too_many_slots_is_refused_and_lists_stay_short(
    count: int, master: Served
) -> None:
    connection = await master.dial(token=TOKEN, credential="of a9")
    answer = await join(connection, hello("a9", slots=slots(count)))
    assert (answer["type"], answer["retry"]) == ("refused", False)
    assert "1024 items" in answer["reason"]
    await connection.close()
    assert (await master.world.ok("GET", "/api/v1/agents"))["agents"] == []


async def test_a_hello_with_200_000_slots_is_not_even_read(master: Served) -> None:
    connection = await master.dial(token=TOKEN, credential="of a9")
    with pytest.raises(ConnectionClosed, match="exceeds limit"):
        await join(connection, hello("a9", slots=slots(200_000)))
    assert (await master.world.ok("GET", "/api/v1/agents"))["agents"] == []


def slots(count: int) -> list[dict[str, Any]]:
    return [{"id": n, "kind": "cpu"} for n in range(count)]


async def test_a_flood_of_an_agent_delays_nobody_else(master: Served) -> None:
    victim = await master.world.add_agent("victim")
    run = await master.world.run_of(await master.world.create())
    (container,) = run.containers
    flooders = [await connected(master, f"f{n}") for n in range(4)]

    async def flood(connection: ClientConnection) -> None:
        beat = '{"type":"heartbeat","notes":["' + "x" * 10_000 + '"]}'
        try:
            while True:
                await connection.send(beat)
        except ConnectionClosed:
            pass

    floods = [asyncio.create_task(flood(connection)) for connection in flooders]
    try:
        for _ in range(20):
            await master.world.ok("GET", "/api/v1/agents")
        victim.log(container.container.container_id, "still here")
        await victim.until(lambda: not victim.unacked)
        await master.world.finish(run)
        assert not any(each.done() for each in floods)
    finally:
        for each in floods:
            each.cancel()
        await asyncio.gather(*floods, return_exceptions=True)
        for connection in flooders:
            connection.transport.abort()
