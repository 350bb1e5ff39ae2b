"""Streams to ports of this machine's tasks: the master asks for a connection, and opens one for each of its users.

It is a connection of its own, so that bytes never delay what controls the agent. Lost, it is opened when it is wanted
again: whoever used it connects anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pydantic import ValidationError

from agent_bootstrap.channels.mux import Mux
from agent_bootstrap.channels.streams import Stream, connected_here
from agent_bootstrap.protocol import ChannelClosed, StreamTarget
from windlass.base.errors import PermissionDenied

log = logging.getLogger(__name__)

Connect = Callable[[], Awaitable[Stream]]
"""Dials the master's address for streams once. Raises ChannelClosed, PermissionDenied."""
NodePort = Callable[[str, int], Awaitable[int]]
"""Where on the loopback a port of a container, by its id, answers. Raises ConnectionError if nowhere."""


class TaskStreams:
    def __init__(self, connect: Connect, node_port: NodePort) -> None:
        self._connect = connect
        self._node_port = node_port
        self._serving: asyncio.Task[None] | None = None

    def open(self) -> None:
        """The master wants it."""
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())

    async def close(self) -> None:
        """All streams end: the agent ends, or the master does not know any more that it is there."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            pipe = await self._connect()
        except (ChannelClosed, PermissionDenied) as error:
            log.warning("no connection for streams to tasks: %s", error)
            return
        why = await Mux(pipe, dial=self._dial, name="the connection to the master").run()
        log.info("connection for streams to tasks ended: %s", why)

    async def _dial(self, target: bytes) -> Stream:
        try:
            wanted = StreamTarget.model_validate_json(target)
        except ValidationError:
            raise ConnectionError("the agent does not understand where the stream goes") from None
        # Tasks have the network of their machine, or publish their ports on its loopback.
        return await connected_here(await self._node_port(wanted.container_id, wanted.port))
