"""The real gateway behind the master's real web server, and scripted agents that dial it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket

from agent_bootstrap.protocol import CREDENTIAL_HEADER
from master.config import load
from master.serve import web_server
from master.tls.serving import ServedTls
from tests.fakes.api_world import ApiWorld


@dataclass(frozen=True, slots=True)
class Served:
    """Where the master listens."""

    world: ApiWorld
    host: str
    port: int
    tls: ServedTls | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}"

    async def dial(
        self, *, token: str = "", credential: str = "", pool: str = "default"
    ) -> ClientConnection:
        """Raises InvalidStatus when it is not even accepted."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if credential:
            headers[CREDENTIAL_HEADER] = credential
        return await open_websocket(
            f"ws://{self.host}:{self.port}/agents?pool={pool}&agent_id=x",
            additional_headers=headers,
            compression=None,
            proxy=None,
            max_size=None,
        )


@asynccontextmanager
async def served(world: ApiWorld, tls: ServedTls | None = None) -> AsyncIterator[Served]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    host, port = listener.getsockname()
    server = web_server(world.app, load(None, overrides={"host": host, "port": port}), tls)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.005)
        yield Served(world, host, port, tls)
    finally:
        server.should_exit = True
        await serving


def hello(agent_id: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "hello",
        "version": "1",
        "agent_id": agent_id,
        "pool": "default",
        "boot_id": "boot-1",
        **more,
    }


async def join(connection: ClientConnection, message: dict[str, Any]) -> dict[str, Any]:
    """Say hello; the master's answer."""
    await connection.send(json.dumps(message))
    answer: dict[str, Any] = json.loads(await connection.recv())
    return answer
