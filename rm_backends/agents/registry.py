"""Which agents there are: admitting them, remembering them, giving them up, taking them out of service."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from agent_bootstrap.protocol import (
    ContainerReport,
    Heartbeat,
    Hello,
    JoinRefused,
    LogBatch,
    RegistryLoginRequest,
    Welcome,
)
from master.core.deadlines import Cause
from rm_backends.agents.agents import Agent, AgentLink, Presence
from rm_backends.agents.connections.admission import Neighbours, place_refusal
from rm_backends.agents.connections.hello import (
    introduction_refusal,
    record_of,
    refusal,
    shares_user,
)
from rm_backends.agents.connections.joining import (
    Proof,
    boot_refusal,
    is_as_before,
    join_refusal,
    launch_refusal,
    spent_by,
)
from rm_backends.agents.departures import Departures, said_by_agent
from rm_backends.agents.pool import Pool
from rm_backends.ports import (
    AgentRecord,
    AgentStore,
    JoinGrant,
    JoinUse,
    LaunchedMachines,
    NoMachines,
    SlotService,
)
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, NotFound
from windlass.base.processes import boot_id

log = logging.getLogger(__name__)

FORGET_AWAY_S = 3600.0
"""An agent of an instance that is away this long is forgotten: its provisioner did not tell us that it is gone."""
LOW_DISK_BYTES = 1024**3


class Registry:
    """Every change that must outlive the master is saved before it takes effect."""

    def __init__(
        self,
        *,
        pools: Mapping[str, Pool],
        store: AgentStore,
        clock: Clock,
        welcome: Welcome,
        certificates: Callable[[], str] = str,
    ) -> None:
        self._pools = pools
        self._store = store
        self._clock = clock
        self._welcome = welcome
        self._certificates = certificates
        self._saving = asyncio.Lock()
        self.departures = Departures(self.find, welcome.epoch)
        self._note_agent: Callable[[str, bool], None] | None = None
        self._machines: LaunchedMachines = NoMachines()
        self._is_of_job: Callable[[str], bool] = lambda _: False
        self._may_be_away: list[Callable[[str], bool]] = []

    def watch(
        self,
        note_agent: Callable[[str, bool], None],
        machines: LaunchedMachines,
        may_be_away: Callable[[str], bool],
    ) -> None:
        """Tell `note_agent` of every agent that connects (True) or is not connected any more (False).

        `machines`: what providers made. Only its launch may join as one of them. `may_be_away`: as `watch_jobs` has it.
        """
        self._note_agent = note_agent
        self._machines = machines
        self._may_be_away.append(may_be_away)
        for pool in self._pools.values():
            for agent in pool.agents.values():
                self._note(agent)

    def watch_jobs(
        self, is_instance: Callable[[str], bool], may_be_away: Callable[[str], bool]
    ) -> None:
        """`is_instance`: of machines that come with batch jobs. `may_be_away`: it is not lost for that now."""
        self._is_of_job = is_instance
        self._may_be_away.append(may_be_away)

    def find(self, agent_id: str) -> tuple[Pool, Agent] | None:
        for pool in self._pools.values():
            if (agent := pool.agents.get(agent_id)) is not None:
                return pool, agent
        return None

    def get(self, agent_id: str) -> tuple[Pool, Agent]:
        found = self.find(agent_id)
        if found is None:
            raise NotFound("agent", agent_id)
        return found

    async def load(self) -> None:
        """Agents of the store may come back: they count as reconnecting for one window."""
        for record in await self._store.load():
            pool = self._pools.get(record.pool)
            if pool is None:
                log.warning("agent %s is of unknown pool %s", record.agent_id, record.pool)
            elif record.agent_id not in pool.agents:
                self._add(pool, record).presence = Presence.RECONNECTING
        self.open_windows()

    def enforce(self) -> None:
        """What was disabled before a restart stops what is restored: it may be enabled before its agent is back."""
        for pool in self._pools.values():
            for agent in pool.agents.values():
                self._enforce_service(pool, agent)

    def open_windows(self) -> None:
        """Count every running reconnect window from now: only from now on can agents connect."""
        now = self._clock.monotonic()
        for pool in self._pools.values():
            for agent in pool.agents.values():
                if agent.presence is Presence.RECONNECTING:
                    agent.since = now

    def knows_credential(self, credential_hash: str | None) -> bool:
        """Some agent has it. Which one may use it is looked at when it says who it is."""
        return credential_hash is not None and any(
            agent.record.credential_hash == credential_hash
            for pool in self._pools.values()
            for agent in pool.agents.values()
        )

    async def boot_refusal(self, grant: JoinGrant | None, name: str) -> JoinRefused | None:
        """Why a machine of that name may not fetch what it is set up with."""
        uses = await self._store.uses(grant.id) if grant is not None and grant.id else {}
        return boot_refusal(grant, name, self._machines, uses=uses, now=self._clock.now())

    async def admit(
        self, hello: Hello, *, pool_name: str, address: str, link: AgentLink, proof: Proof
    ) -> Agent | JoinRefused:
        """Save the agent, make `link` the way to it, send its Welcome, and bring it in line."""
        async with self._saving:
            refused = await self._unauthenticated(hello, proof) or self._refusal(
                hello, pool_name, proof
            )
            if refused is not None:
                return refused
            pool = self._pools[pool_name]
            found = self.find(hello.agent_id)
            before = found[1] if found else None
            record = record_of(hello, before, self._clock.now(), proof.credential_hash)
            known = pool.agents.get(hello.agent_id)
            if known is None or known.record != record:
                await self._store.save(record, self._spent(hello, proof))
            if (refused := self._refusal(hello, pool_name, proof)) is not None:
                return refused
            slots = before.record.slots if before else 0
            agent = self._join(pool, record)
            devices = agent.devices
            self._attach(pool, agent, hello, address)
        if changed := agent.slots_changed(devices, slots):
            reason = f"agent {agent.id} came back with other slots: {changed}"
            pool.assignments.stop_work(agent, reason)
        self._resync(pool, agent, hello, link)
        self._note(agent)
        return agent

    async def register(self, hello: Hello, proof: Proof) -> Agent | JoinRefused:
        """Save who the agent is before it connects for the first time. Repeating it changes nothing."""
        async with self._saving:
            options = self._pools[hello.pool].options
            refused = introduction_refusal(hello, options, self._welcome.epoch)
            if refused := refused or await self._unauthenticated(hello, proof):
                return refused
            found = self.find(hello.agent_id)
            known = found[1] if found is not None else None
            if known is not None and is_as_before(hello, proof, known.record):
                return known
            if refused := self._place_refusal(hello, proof):
                return refused
            record = record_of(hello, known, self._clock.now(), proof.credential_hash)
            if known is not None:  # which slots it has, its first connection says
                kept = known.record
                record = replace(record, slots=kept.slots, slot_service=kept.slot_service)
            await self._store.save(record, self._spent(hello, proof))
            return self._join(self._pools[hello.pool], record)

    def detach(self, agent: Agent, link: AgentLink) -> None:
        """The connection is over. Its agent has a window to come back, unless another connection took over."""
        found = self.find(agent.id)
        if found is None or found[1] is not agent or agent.link is not link:
            return
        agent.link = None
        agent.move(Presence.RECONNECTING, self._clock.monotonic())
        self._note(agent)
        found[0].touch()

    def report(self, agent: Agent, link: AgentLink, report: ContainerReport) -> None:
        """Raises BadMessage for a container of others."""
        found = self.find(agent.id)
        if found is not None and agent.link is link:
            assignments = found[0].assignments
            assignments.was_given(agent, report.container_id, report.allocation_id)
            assignments.report(agent, report)

    def expects(self, agent: Agent, batch: LogBatch) -> bool:
        """False: it is late, and dropped. Raises BadMessage for output of others' containers."""
        found = self.find(agent.id)
        return found is not None and found[0].assignments.was_given(
            agent, batch.container_id, batch.allocation_id, batch.task_id
        )

    def has_given(self, agent: Agent, request: RegistryLoginRequest) -> bool:
        """False: that container is over. Raises BadMessage for one of others."""
        found = self.find(agent.id)
        return found is not None and found[0].assignments.was_given(
            agent, request.container_id, request.allocation_id
        )

    def heartbeat(self, agent: Agent, beat: Heartbeat) -> None:
        agent.notes = beat.notes or agent.notes
        low = beat.disk_free_bytes is not None and beat.disk_free_bytes < LOW_DISK_BYTES
        disk = f"disk nearly full: {(beat.disk_free_bytes or 0) >> 20} MiB left"
        agent.notes = tuple(n for n in agent.notes if not n.startswith("disk nearly full:"))
        if low:
            agent.notes = (*agent.notes, disk)

    async def look(self) -> None:
        """End reconnect windows that are over, and forget what certainly will not come back."""
        now = self._clock.monotonic()
        for pool in self._pools.values():
            pool.ask_before_ends()
            for agent in list(pool.agents.values()):
                if agent.presence is Presence.RECONNECTING and any(
                    excused(agent.id) for excused in self._may_be_away
                ):
                    agent.since = now
                away_s = now - agent.since
                window_s = pool.options.section.agent_reconnect_wait.total_seconds()
                if agent.presence is Presence.RECONNECTING and away_s >= window_s:
                    agent.move(Presence.AWAY, now)
                    reason = f"agent {agent.id} did not come back within {window_s:g} s"
                    log.warning(reason)
                    pool.assignments.lose(agent, reason)
                    pool.touch()
                elif (
                    agent.presence is Presence.AWAY
                    and agent.record.instance_id is not None
                    and away_s >= FORGET_AWAY_S
                    and not agent.holds
                    and not self._machines.is_stopped(agent.id)
                ):
                    await self.remove(agent.id, "away for too long")

    async def remove(self, agent_id: str, reason: str) -> None:
        """The agent is gone for good: what it ran is lost now. Its credential is forgotten with it, first of all."""
        async with self._saving:
            await self._store.remove(agent_id)
            self.departures.forget(agent_id)
            found = self.find(agent_id)
            if found is not None:
                self._drop(*found, reason)

    def _drop(self, pool: Pool, agent: Agent, reason: str) -> None:
        if agent.link is not None:
            agent.link.close(reason)
            agent.link = None
            agent.move(Presence.RECONNECTING, self._clock.monotonic())
            self._note(agent)
        pool.assignments.lose(agent, f"agent {agent.id} is gone: {reason}")
        del pool.agents[agent.id]
        pool.touch()

    async def forget(self, agent_id: str, *, force: bool) -> None:
        """An operator says that it will not come back. Raises Conflict while it is connected, unless `force`."""
        _, agent = self.get(agent_id)
        if agent.presence is Presence.CONNECTED and not force:
            raise Conflict(f"agent '{agent_id}' is connected: stop it first, or use --force")
        await self.remove(agent_id, "forgotten by an operator")

    async def set_service(self, agent_id: str, *, enabled: bool, draining: bool) -> None:
        """Enable, disable or drain. Disabling without draining stops what runs on it."""

        def change(agent: Agent) -> AgentRecord:
            return replace(agent.record, enabled=enabled, draining=draining)

        await self._change(agent_id, change)

    async def set_slot_service(
        self, agent_id: str, slot_id: int, service: SlotService | None
    ) -> None:
        """Take one slot out of service, or back into it (None). DISABLED stops what holds it."""

        def change(agent: Agent) -> AgentRecord:
            if slot_id not in agent.slot_ids:
                raise NotFound(f"agent '{agent_id}': slot", slot_id)
            others = {n: how for n, how in agent.record.slot_service.items() if n != slot_id}
            mine = {} if service is None else {slot_id: service}
            return replace(agent.record, slot_service={**others, **mine})

        await self._change(agent_id, change)

    async def _change(self, agent_id: str, change: Callable[[Agent], AgentRecord]) -> None:
        """Save what an operator says of an agent, then act on it."""
        async with self._saving:
            _, agent = self.get(agent_id)
            record = change(agent)
            await self._store.save(record)
            found = self.find(agent_id)
            if found is None:
                await self._store.remove(agent_id)
                raise NotFound("agent", agent_id)
            pool, agent = found
            agent.remember(record)
        self._enforce_service(pool, agent)
        pool.touch()

    def _spent(self, hello: Hello, proof: Proof) -> JoinUse | None:
        found = self.find(hello.agent_id)
        known = found[1].record if found is not None else None
        return spent_by(hello, proof, known, self._clock.now())

    async def _unauthenticated(self, hello: Hello, proof: Proof) -> JoinRefused | None:
        """It may not be who it says it is."""
        found = self.find(hello.agent_id)
        known = found[1].record if found is not None else None
        grant = proof.grant
        uses = await self._store.uses(grant.id) if grant is not None and grant.id else {}
        launched = self._machines.is_instance(hello.agent_id) or self._is_of_job(hello.agent_id)
        why = join_refusal(
            *(hello, proof, known), uses=uses, launched=launched, now=self._clock.now()
        )
        if why is not None:
            return JoinRefused(reason=why)
        if grant is None or is_as_before(hello, proof, known):
            return None
        return launch_refusal(grant, hello.agent_id, self._machines)

    def _refusal(self, hello: Hello, pool_name: str, proof: Proof) -> JoinRefused | None:
        options = self._pools[pool_name].options
        return refusal(hello, options, self._welcome.epoch) or self._place_refusal(hello, proof)

    def _place_refusal(self, hello: Hello, proof: Proof) -> JoinRefused | None:
        pool, known = self.find(hello.agent_id) or (None, None)
        there = Neighbours(
            known=known,
            known_in=pool.name if pool is not None else "",
            others=[a for p in self._pools.values() for a in p.agents.values() if a is not known],
        )
        return place_refusal(hello, proof, there, self._clock.monotonic())

    def _add(self, pool: Pool, record: AgentRecord) -> Agent:
        agent = Agent(record=record, aux_places=pool.options.section.max_aux_containers_per_agent)
        agent.since = self._clock.monotonic()
        self.departures.meet(agent)
        pool.agents[agent.id] = agent
        return agent

    def _join(self, pool: Pool, record: AgentRecord) -> Agent:
        found = self.find(record.agent_id)
        if found is not None and found[0] is not pool:
            del found[0].agents[record.agent_id]
            found[0].touch()
        agent = pool.agents.get(record.agent_id) or self._add(pool, record)
        agent.remember(record)
        return agent

    def _attach(self, pool: Pool, agent: Agent, hello: Hello, address: str) -> None:
        if agent.link is not None:
            agent.link.close("another connection of this agent took over")
            agent.link = None
        agent.move(Presence.CONNECTED, self._clock.monotonic())
        if agent.boot_id not in ("", hello.boot_id):
            agent.leaving = None  # it went, and came back
        agent.boot_id = hello.boot_id
        agent.version = hello.version
        agent.notes = hello.notes
        agent.labels = hello.labels
        agent.isolation = hello.isolation
        agent.container_runtime = hello.container_runtime
        agent.runs_trial_classes = hello.runs_trial_classes
        agent.is_root = hello.uid == 0
        agent.process_user = hello.process_user
        agent.carries_streams = hello.carries_streams
        agent.shares_user = shares_user(hello, boot_id(), os.geteuid())
        if agent.shares_user:
            log.warning("agent %s: %s", agent.id, agent.shares_user)
        made_for_it = self._is_of_job(agent.id)
        agent.says_end(hello.ends_at, Cause.JOB_LIMIT if made_for_it else Cause.LIFETIME)
        pool.note_end(agent)
        if not hello.takes_work:
            self.departures.drain(agent.id)
        agent.set_devices(hello.slots)
        agent.address = address
        agent.own_address = "" if hello.address else hello.own_address
        agent.site_node = hello.site_node

    def _resync(self, pool: Pool, agent: Agent, hello: Hello, link: AgentLink) -> None:
        """Nothing may reach the agent before its Welcome: it has its link only from then on."""
        self._enforce_service(pool, agent)
        plan = pool.assignments.resync(agent, hello.containers)
        kept = set(plan.keep)
        agent.log_offsets = {c: n for c, n in agent.log_offsets.items() if c in kept}
        welcome = {
            "keep": plan.keep,
            "log_offsets": dict(agent.log_offsets),
            "certificates": self._certificates(),
        }
        agent.link = link
        link.send(self._welcome.model_copy(update=welcome))
        pool.assignments.carry_out(agent, plan)
        if hello.leaving is not None:
            self.departures.leave(agent.id, said_by_agent(hello.leaving))
        elif agent.leaving is not None and agent.leaving.its_own:
            agent.leaving = None  # it does not go any more, as was found while it was away
        elif agent.leaving is not None:
            self.departures.leave(agent.id, agent.leaving)
        pool.touch()

    def _note(self, agent: Agent) -> None:
        if self._note_agent is not None:
            self._note_agent(agent.id, agent.presence is Presence.CONNECTED)

    @staticmethod
    def _enforce_service(pool: Pool, agent: Agent) -> None:
        pool.assignments.note_service(agent)
        if not agent.record.enabled and not agent.record.draining:
            pool.assignments.stop_work(agent, f"agent {agent.id} was disabled")
        for slot_id, how in agent.record.slot_service.items():
            if how is SlotService.DISABLED:
                reason = f"slot {slot_id} of agent {agent.id} was disabled"
                pool.assignments.stop_work(agent, reason, slot_id=slot_id)
