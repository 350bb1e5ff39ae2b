"""Serves the connections of agents: who may connect, then their messages until they are gone or silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress

from agent_bootstrap.bounds import one_line
from agent_bootstrap.protocol import (
    BadMessage,
    Channel,
    ChannelClosed,
    ContainerReport,
    Heartbeat,
    Hello,
    JoinRefused,
    Leaving,
    LogAck,
    LogBatch,
    RegistryLoginReply,
    RegistryLoginRequest,
    Staying,
)
from rm_backends.agents.agents import Agent
from rm_backends.agents.connections.connection import AgentConnection
from rm_backends.agents.connections.joining import Proof, credential_hash
from rm_backends.agents.connections.refusals import Refusals
from rm_backends.agents.connections.streams import AgentStreams
from rm_backends.agents.departures import said_by_agent
from rm_backends.agents.registry import Registry
from rm_backends.ports import JoinTokens, LogSink, RegistryLogins
from rm_backends.views import RefusalView
from windlass.base.clock import Clock
from windlass.base.errors import LeaseLost, WindlassError

log = logging.getLogger(__name__)

HELLO_WITHIN_S = 10.0
SILENCE_S = 30.0
"""Six missed heartbeats: the connection is dead, whatever the network says."""
FIRST_LOG_RETRY_S = 0.2
LAST_LOG_RETRY_S = 10.0
MAX_NAME = 200


class Gateway:
    def __init__(
        self,
        *,
        registry: Registry,
        pools: Collection[str],
        log_sink: LogSink,
        join_tokens: JoinTokens,
        logins: RegistryLogins,
        refusals: Refusals,
        streams: AgentStreams,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._pools = pools
        self._log_sink = log_sink
        self._join_tokens = join_tokens
        self._logins = logins
        self._refusals = refusals
        self.streams = streams
        self._clock = clock

    def unauthenticated_reason(
        self, *, pool: str, agent_id: str, token: str, peer: str, credential: str = ""
    ) -> str:
        """Why nobody should listen to a connection at all: it shows neither a good token nor a known credential.

        Empty: it does. What it says of itself is not verified.
        """
        if not self._is_unauthenticated(self._proof(pool, token, credential)):
            return ""
        reason = _wrong_token(pool)
        self._note(agent_id, pool, peer, reason, unauthenticated=True)
        return reason

    async def serve(
        self, channel: Channel, *, pool: str, token: str, peer: str, credential: str = ""
    ) -> None:
        """One connection, from Hello to its end. `peer` is the address that the master sees."""
        proof = self._proof(pool, token, credential)
        reason = ""
        try:
            with suppress(ChannelClosed):
                reason = await self._serve(channel, pool=pool, proof=proof, peer=peer)
        finally:
            with suppress(ChannelClosed):
                await channel.close(reason)

    def _proof(self, pool: str, token: str, credential: str) -> Proof:
        return Proof(
            grant=self._join_tokens.find((pool,), token),
            credential_hash=credential_hash(credential),
        )

    def _is_unauthenticated(self, proof: Proof) -> bool:
        return proof.grant is None and not self._registry.knows_credential(proof.credential_hash)

    async def _serve(self, channel: Channel, *, pool: str, proof: Proof, peer: str) -> str:
        """Why the master ended the connection; empty if the agent did."""
        # Whoever has no valid token does not learn which pools there are.
        if self._is_unauthenticated(proof):
            await channel.send(JoinRefused(reason=_wrong_token(pool)))
            return ""
        connection = AgentConnection(channel, self._clock)
        try:
            hello = await connection.receive(HELLO_WITHIN_S)
        except TimeoutError:
            await channel.send(JoinRefused(reason="no Hello in time", retry=True))
            return ""
        except BadMessage as error:
            reason = f"the agent {error}"
            self._note("", pool, peer, reason)
            await channel.send(JoinRefused(reason=reason))
            return ""
        if not isinstance(hello, Hello):
            await channel.send(JoinRefused(reason="the first message must be Hello"))
            return ""
        if pool not in self._pools:
            admitted: Agent | JoinRefused = JoinRefused(
                reason=f"there is no resource pool '{one_line(pool)}'"
            )
        else:
            admitted = await self._admit(hello, pool, hello.address or peer, connection, proof)
        if isinstance(admitted, JoinRefused):
            self._note(hello.agent_id, pool, peer, admitted.reason, version=hello.version)
            await channel.send(admitted)
            return ""
        self._refusals.forget(admitted.id)
        log.info("agent connected: %s of pool %s", admitted.id, pool)
        try:
            return await self._converse(admitted, connection)
        finally:
            self._registry.detach(admitted, connection)
            self.streams.lost(admitted, connection)

    def _note(
        self,
        agent_id: str,
        pool: str,
        peer: str,
        reason: str,
        *,
        version: str = "",
        unauthenticated: bool = False,
    ) -> None:
        now = self._clock.now()
        refusal = RefusalView(
            agent_id=agent_id,
            pool=pool,
            address=peer,
            reason=reason,
            first=now,
            last=now,
            version=version,
        )
        if self._refusals.note(refusal, unauthenticated=unauthenticated):
            name = one_line(agent_id)[:MAX_NAME] or "(unnamed)"
            log.info(
                "agent refused: %s of pool %s at %s: %s",
                name,
                one_line(pool)[:MAX_NAME],
                peer,
                reason,
            )

    async def _admit(
        self, hello: Hello, pool: str, address: str, connection: AgentConnection, proof: Proof
    ) -> Agent | JoinRefused:
        try:
            return await self._registry.admit(
                hello, pool_name=pool, address=address, link=connection, proof=proof
            )
        except LeaseLost:
            raise
        except WindlassError as error:
            return JoinRefused(reason=f"the master cannot take it now: {error.message}", retry=True)

    async def _converse(self, agent: Agent, connection: AgentConnection) -> str:
        """Why the master ended it; empty if the agent did."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(connection.write())
                tasks.create_task(self._store_logs(agent, connection))
                await self._read(agent, connection)
        except* BadMessage as group:
            connection.close(f"the agent {group.exceptions[0]}")
            log.warning("agent disconnected: %s: %s", agent.id, connection.close_reason)
        except* ChannelClosed as group:
            why = connection.close_reason or str(group.exceptions[0])
            log.info("agent disconnected: %s: %s", agent.id, why)
        return connection.close_reason or ""

    async def _read(self, agent: Agent, connection: AgentConnection) -> None:
        """Until the connection ends. Raises ChannelClosed, BadMessage."""
        while True:
            try:
                message = await connection.receive(SILENCE_S)
            except TimeoutError:
                connection.close(f"silent for {SILENCE_S:g} s")
                raise ChannelClosed from None
            if agent.link is not connection:
                raise ChannelClosed  # another connection took over, or the agent was forgotten
            match message:
                case ContainerReport():
                    self._registry.report(agent, connection, message)
                case Heartbeat():
                    self._registry.heartbeat(agent, message)
                case Leaving():
                    self._registry.departures.leave(agent.id, said_by_agent(message))
                case Staying():
                    self._registry.departures.stay(agent.id)
                case LogBatch() if self._registry.expects(agent, message):
                    connection.keep_log(message)
                case LogBatch(container_id=container_id, next_offset=offset):
                    connection.send(LogAck(container_id=container_id, next_offset=offset))
                case RegistryLoginRequest():
                    connection.send(self._login(agent, message))
                case _:
                    raise BadMessage(f"sent a message out of place: {type(message).__name__}")

    def _login(self, agent: Agent, request: RegistryLoginRequest) -> RegistryLoginReply:
        """Raises BadMessage for a container of others."""
        given = self._registry.has_given(agent, request)
        login = self._logins.registry_login(request.allocation_id) if given else None
        return RegistryLoginReply(container_id=request.container_id, login=login)

    async def _store_logs(self, agent: Agent, connection: AgentConnection) -> None:
        """Apart from reading: a slow log store delays neither exits nor heartbeats."""
        while True:
            batch = await connection.next_log()
            offset = await self._ingest(batch.model_copy(update={"agent_id": agent.id}))
            if batch.container_id in agent.holds:
                agent.log_offsets[batch.container_id] = offset
            connection.send(LogAck(container_id=batch.container_id, next_offset=offset))

    async def _ingest(self, batch: LogBatch) -> int:
        """Repeated until stored: nothing else would send it again while the connection lasts."""
        delay = FIRST_LOG_RETRY_S
        while True:
            try:
                return await self._log_sink.ingest(batch)
            except LeaseLost:
                raise
            except Exception:
                log.exception("task log not stored, will repeat: container %s", batch.container_id)
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_LOG_RETRY_S)


def _wrong_token(pool: str) -> str:
    return (
        f"the join token is not valid for pool '{one_line(pool)[:MAX_NAME]}', "
        "and the credential is of no agent that is known here"
    )
