"""The application of a world of tests on a port of this machine."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from master.api.application import begin_shutdown
from tests.fakes.api_world import ApiWorld


class Served:
    def __init__(self, world: ApiWorld, port: int = 0) -> None:
        """`port`: that of one that was stopped."""
        self._world = world
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            world.app, lifespan="off", log_config=None, access_log=False, ws="websockets-sansio"
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)

    async def start(self) -> None:
        await self._server.startup(sockets=[self._socket])

    async def stop(self) -> None:
        begin_shutdown(self._world.app)
        await self._server.shutdown(sockets=[self._socket])


@asynccontextmanager
async def served(world: ApiWorld) -> AsyncIterator[Served]:
    server = Served(world)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
