"""What a machine asks by REST, before and after its agent runs: to join, how it stands, to leave.

Joining binds the credential of the agent to its id, so that no join token has to be kept on the machine.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime

from agent_bootstrap.protocol import Hello, JoinRefused
from rm_backends.agents.agents import Agent, Presence
from rm_backends.agents.connections.joining import Proof, credential_hash
from rm_backends.agents.connections.refusals import Refusals
from rm_backends.agents.pool import Pool
from rm_backends.agents.registry import Registry
from rm_backends.ports import JoinGrant, JoinTokens
from rm_backends.views import AgentStatus, JoinRequest, RefusalView
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, PermissionDenied

log = logging.getLogger(__name__)

_NO_BOOT = "joining"
"""In place of a boot id: this is not a connection."""


class Joins:
    def __init__(
        self,
        *,
        registry: Registry,
        pools: Collection[str],
        join_tokens: JoinTokens,
        refusals: Refusals,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._pools = pools
        self._join_tokens = join_tokens
        self._refusals = refusals
        self._clock = clock

    async def join(
        self, asked: JoinRequest, *, token: str, credential: str, peer: str
    ) -> AgentStatus:
        """Bind the credential to the agent. It may be repeated: that spends no token.

        Raises PermissionDenied, and Conflict for what may pass.
        """
        try:
            agent = await self._join(asked, token, credential)
        except (PermissionDenied, Conflict) as refused:
            self._note(asked, peer, refused.message)
            raise
        log.info("agent joined: %s of pool %s", agent.id, agent.record.pool)
        return self._standing(agent)

    def standing(
        self, agent_id: str, credential: str, since: datetime | None = None
    ) -> AgentStatus:
        """Raises PermissionDenied for whoever is not that agent."""
        return self._standing(self._own(agent_id, credential)[1], since)

    async def leave(self, agent_id: str, credential: str, *, stop: bool) -> AgentStatus:
        """No more work for it; once it runs nothing, it is forgotten. `stop`: end what runs there now.

        Raises PermissionDenied for whoever is not that agent.
        """
        pool, agent = self._own(agent_id, credential)
        await self._registry.set_service(agent_id, enabled=False, draining=not stop)
        if agent.holds:
            return self._standing(agent)
        await self._registry.remove(agent_id, "it left the cluster")
        log.info("agent left: %s of pool %s", agent_id, pool.name)
        return AgentStatus(agent_id=agent_id, pool=pool.name, member=False)

    async def launch_of(self, name: str, token: str) -> JoinGrant:
        """What launched the machine of that name, which has not joined yet.

        Raises PermissionDenied, and Conflict while it is not known yet whether there is such a machine.
        """
        grant = self._join_tokens.find(self._pools, token)
        refused = await self._registry.boot_refusal(grant, name)
        if refused is not None:
            raise (Conflict if refused.retry else PermissionDenied)(refused.reason)
        if grant is None:
            raise PermissionDenied("this is not the token of a launch of this master")
        return grant

    async def _join(self, asked: JoinRequest, token: str, credential: str) -> Agent:
        proof = Proof(
            grant=self._join_tokens.find(self._pools, token),
            credential_hash=credential_hash(credential),
        )
        hello = Hello(
            protocol=asked.protocol,
            version=asked.version,
            agent_id=asked.agent_id,
            pool=self._pool_for(asked, proof),
            boot_id=_NO_BOOT,
            instance_id=asked.instance_id,
        )
        answer = await self._registry.register(hello, proof)
        if isinstance(answer, JoinRefused):
            raise (Conflict if answer.retry else PermissionDenied)(answer.reason)
        return answer

    def _pool_for(self, asked: JoinRequest, proof: Proof) -> str:
        """That which it names, else that of its token, else that which it is in. Raises PermissionDenied."""
        found = self._registry.find(asked.agent_id)
        known = found[1].record if found is not None else None
        own = known.pool if known is not None and proof.is_of(known) else None
        granted = proof.grant.pool if proof.grant is not None else None
        if own is None and granted is None:
            raise PermissionDenied(
                "this master knows no such join token: was it mistyped, or made by another master? "
                "An administrator makes one: windlass master join-token create POOL"
            )
        wanted = asked.pool or own or granted or ""
        if wanted not in (own, granted):
            raise PermissionDenied(
                f"the join token is for pool '{granted}', not '{wanted}'"
                if granted is not None
                else f"agent '{asked.agent_id}' is in pool '{own}': it needs a join token for pool '{wanted}'"
            )
        return wanted

    def _own(self, agent_id: str, credential: str) -> tuple[Pool, Agent]:
        proof = Proof(credential_hash=credential_hash(credential))
        found = self._registry.find(agent_id)
        if found is None or not proof.is_of(found[1].record):
            raise PermissionDenied(f"this is not the credential of an agent '{agent_id}'")
        return found

    def _standing(self, agent: Agent, since: datetime | None = None) -> AgentStatus:
        refusal = self._refusals.last_of(agent.id, since)
        return AgentStatus(
            agent_id=agent.id,
            pool=agent.record.pool,
            connected=agent.presence is Presence.CONNECTED,
            slots=agent.slot_count,
            containers=len(agent.holds),
            refused=refusal.reason if refusal is not None else "",
        )

    def _note(self, asked: JoinRequest, peer: str, reason: str) -> None:
        now = self._clock.now()
        refusal = RefusalView(
            agent_id=asked.agent_id,
            pool=asked.pool,
            address=peer,
            version=asked.version,
            reason=reason,
            first=now,
            last=now,
        )
        if self._refusals.note(refusal, unauthenticated=True):
            log.info("agent refused: %s at %s: %s", asked.agent_id, peer, reason)
