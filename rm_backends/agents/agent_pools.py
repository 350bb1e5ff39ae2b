"""All pools of agents of a master, and what they share: the agents' connections and the order of events.

Resource managers add their pools. Whoever else looks at them or has a say over their agents does it by a small class:
`observer`, `operator`, `provisioned_nodes`, `leased_nodes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from agent_bootstrap.protocol import Welcome
from provisioner.sections.pools import ResolvedPool
from rm_backends.agents.connections.gateway import Gateway
from rm_backends.agents.connections.joins import Joins
from rm_backends.agents.connections.refusals import Refusals
from rm_backends.agents.connections.streams import AgentStreams
from rm_backends.agents.pool import Decide, Pool
from rm_backends.agents.registry import Registry
from rm_backends.base import AllocationRequest, RmEvents
from rm_backends.outbox import Outbox
from rm_backends.ports import AgentStore, JoinTokens, LogSink, RegistryLogins
from rm_backends.views import Foreseen
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument, NotFound
from windlass.base.ids import Ids
from windlass.base.loop import Loop

LOOK_EVERY_S = 1.0
"""How exactly reconnect windows are kept."""


class AgentPools:
    """`load` comes after the last `add` and before resource managers restore, then `run` while the master leads."""

    def __init__(
        self,
        *,
        events: RmEvents,
        agent_store: AgentStore,
        log_sink: LogSink,
        join_tokens: JoinTokens,
        logins: RegistryLogins,
        clock: Clock,
        ids: Ids,
        epoch: int,
        master_id: str,
        cluster_id: str,
        cluster_name: str,
        certificates: Callable[[], str] = str,
    ) -> None:
        self.by_name: dict[str, Pool] = {}
        self.outbox = Outbox(events)
        self._clock = clock
        self._ids = ids
        self.epoch = epoch
        welcome = Welcome(
            epoch=epoch,
            master_id=master_id,
            cluster_id=cluster_id,
            cluster_name=cluster_name,
            answers_logins=True,
        )
        self.registry = Registry(
            pools=self.by_name,
            store=agent_store,
            clock=clock,
            welcome=welcome,
            certificates=certificates,
        )
        self.refusals = Refusals()
        self.streams = AgentStreams(self.registry, epoch)
        self.gateway = Gateway(
            registry=self.registry,
            pools=self.by_name.keys(),
            log_sink=log_sink,
            join_tokens=join_tokens,
            logins=logins,
            refusals=self.refusals,
            streams=self.streams,
            clock=clock,
        )
        self.joins = Joins(
            registry=self.registry,
            pools=self.by_name.keys(),
            join_tokens=join_tokens,
            refusals=self.refusals,
            clock=clock,
        )
        self._looking = Loop("agents", self.registry.look, interval_s=LOOK_EVERY_S)

    def add(self, options: ResolvedPool, decide: Decide) -> Pool:
        """One more pool, which its resource manager runs. Raises InvalidArgument for a name that another has."""
        if options.name in self.by_name:
            raise InvalidArgument(f"two resource pools are called '{options.name}'")
        pool = Pool(
            options,
            decide=decide,
            outbox=self.outbox,
            clock=self._clock,
            ids=self._ids,
            epoch=self.epoch,
        )
        self.by_name[options.name] = pool
        return pool

    def get(self, name: str) -> Pool:
        """Raises NotFound."""
        return pool_called(name, self.by_name)

    async def load(self) -> None:
        """Agents that were there before a restart of the master."""
        await self.registry.load()

    async def foresee(self, requests: Sequence[AllocationRequest]) -> Mapping[str, Foreseen]:
        """What would become of these if they came now, by allocation id; left out: those of other pools."""
        told: dict[str, Foreseen] = {}
        for name, pool in self.by_name.items():
            if mine := [request for request in requests if request.pool == name]:
                told |= await pool.foresee(mine)
        return told

    async def run(self) -> None:
        self.registry.open_windows()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.outbox.run())
            tasks.create_task(self._looking.run())


def pool_called(name: str, pools: Mapping[str, Pool]) -> Pool:
    """Raises NotFound."""
    try:
        return pools[name]
    except KeyError:
        raise NotFound("resource pool", name) from None
