"""Streams to ports of tasks, each over a connection that its agent opens when the first one is wanted.

That connection is apart from the one that controls the agent, and ends with it.
"""

from __future__ import annotations

import asyncio
import logging

from agent_bootstrap.channels.mux import Mux
from agent_bootstrap.channels.streams import Stream
from agent_bootstrap.protocol import OpenStreams, StreamTarget
from rm_backends.agents.agents import Agent, AgentLink
from rm_backends.agents.connections.joining import credential_hash
from rm_backends.agents.registry import Registry

OPEN_LIMIT_S = 10.0
"""For the agent to open its connection."""

log = logging.getLogger(__name__)


class AgentStreams:
    """`open` for those who want one; `serve` for the agent's connection."""

    def __init__(self, registry: Registry, epoch: int) -> None:
        self._registry = registry
        self._epoch = epoch
        self._muxes: dict[AgentLink, Mux] = {}
        """By the agent's connection: a new one has none yet."""
        self._wanted: dict[AgentLink, asyncio.Future[Mux | None]] = {}
        """None: the agent is gone."""

    async def open(self, agent_id: str, container_id: str, port: int, first: bytes = b"") -> Stream:
        """A connection to that port, and what is said there first. Raises OSError with words for people."""
        _, agent = self._registry.find(agent_id) or (None, None)
        if agent is None or agent.link is None:
            raise ConnectionError(f"agent {agent_id} is not connected")
        mux = self._muxes.get(agent.link) or await self._asked(agent, agent.link)
        target = StreamTarget(container_id=container_id, port=port)
        return await mux.open(target.model_dump_json().encode(), first)

    def admits(self, agent_id: str, credential: str) -> bool:
        """Whether a connection for streams is of an agent that is connected."""
        _, agent = self._registry.find(agent_id) or (None, None)
        shown = credential_hash(credential)
        return (
            agent is not None
            and agent.link is not None
            and shown is not None
            and agent.record.credential_hash == shown
        )

    async def serve(self, pipe: Stream, agent_id: str) -> None:
        """The connection for streams of an agent that is admitted, until it is over."""
        _, agent = self._registry.find(agent_id) or (None, None)
        if agent is None or (link := agent.link) is None:
            pipe.close()
            return
        mux = Mux(pipe, name=f"the connection of agent {agent_id}")
        if (before := self._muxes.pop(link, None)) is not None:
            before.end("another connection of this agent took over")
        self._muxes[link] = mux
        self._answer(link, mux)
        try:
            why = await mux.run()
            log.info("streams of agent %s ended: %s", agent_id, why)
        finally:
            if self._muxes.get(link) is mux:
                del self._muxes[link]

    def lost(self, agent: Agent, link: AgentLink) -> None:
        """The agent's connection is over: so are its streams."""
        if (mux := self._muxes.pop(link, None)) is not None:
            mux.end(f"agent {agent.id} lost its connection")
        self._answer(link, None)

    async def _asked(self, agent: Agent, link: AgentLink) -> Mux:
        if not agent.carries_streams:
            raise ConnectionError(f"agent {agent.id} leads to no ports of its tasks: update it")
        if (wanted := self._wanted.get(link)) is None:
            wanted = self._wanted[link] = asyncio.get_running_loop().create_future()
            link.send(OpenStreams(epoch=self._epoch))
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                mux = await asyncio.shield(wanted)
        except TimeoutError:
            self._answer(link, None)
            raise ConnectionError(
                f"agent {agent.id} opens no connection for streams within {OPEN_LIMIT_S:g} s"
            ) from None
        if mux is None:
            raise ConnectionError(f"agent {agent.id} lost its connection")
        return mux

    def _answer(self, link: AgentLink, mux: Mux | None) -> None:
        wanted = self._wanted.pop(link, None)
        if wanted is not None and not wanted.done():
            wanted.set_result(mux)
