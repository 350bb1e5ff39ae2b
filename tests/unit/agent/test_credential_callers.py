"""Nobody's connections to the agent's small HTTP service keep another user from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing, suppress

import pytest

from agent_bootstrap.agent.metadata.http1 import HttpReply
from agent_bootstrap.agent.metadata.server import LocalServer, held_by_owner_of

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:03FF 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0
   1: 0100007F:9C41 0100007F:03FF 01 00000000:00000000 00:00000000 00000000 65530        0 2 1 0
   2: 0100007F:9C42 0100007F:03FF 01 00000000:00000000 00:00000000 00000000 65530        0 3 1 0
   3: 0100007F:9C43 0100007F:03FF 01 00000000:00000000 00:00000000 00000000 65531        0 4 1 0
   4: 0100007F:03FF 0100007F:9C41 01 00000000:00000000 00:00000000 00000000     0        0 5 1 0
   5: 0100007F:9C44 0100007F:03FF 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0
   6: 0100007F:9C45 0100007F:0050 01 00000000:00000000 00:00000000 00000000 65530        0 6 1 0
   7: 02AAFEA9:03FF 0300580A:1000 01 00000000:00000000 00:00000000 00000000     0        0 7 1 0
   8: 02AAFEA9:03FF 0300580A:1001 01 00000000:00000000 00:00000000 00000000     0        0 8 1 0
   9: 02AAFEA9:03FF 0400580A:1000 01 00000000:00000000 00:00000000 00000000     0        0 9 1 0
"""


@pytest.mark.parametrize(
    ("peer", "ours", "held"),
    [
        (("127.0.0.1", 0x9C41), ("127.0.0.1", 1023), 2),
        (("127.0.0.1", 0x9C43), ("127.0.0.1", 1023), 1),
        (("10.88.0.3", 0x1000), ("169.254.170.2", 1023), 2),
        (("10.88.0.4", 0x1000), ("169.254.170.2", 1023), 1),
    ],
)
def test_connections_are_counted_by_user_or_by_container(
    peer: tuple[str, int], ours: tuple[str, int], held: int
) -> None:
    assert held_by_owner_of(peer, ours, TABLE) == held


async def test_a_user_who_holds_connections_open_gets_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent_bootstrap.agent.metadata.server.FEW", 1)
    monkeypatch.setattr("agent_bootstrap.agent.metadata.server.MAX_OF_ONE_USER", 3)

    async def answer(method: str, target: str, headers: Mapping[str, str]) -> HttpReply:
        return HttpReply(200, b"yours")

    async def asked() -> bytes:
        with suppress(ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with closing(writer):
                writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                return await reader.read()
        return b""

    server = LocalServer(answer)
    port = await server.open(["127.0.0.1"], 0)
    assert b"yours" in await asked()
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
    assert await asked() == b""
    for _, writer in held:
        writer.close()
        await writer.wait_closed()
    while not await asked():  # noqa: ASYNC110 - the service notices the ends of the others first
        await asyncio.sleep(0)
    await server.close()
