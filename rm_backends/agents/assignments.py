"""The agents of one pool and what they run: reservations, starts, kills, reports, losses.

Synchronous throughout: a call changes memory, queues messages to agents and events to the master, and returns. Slots of
a container come back when the master has committed its end, never before.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from agent_bootstrap.protocol import (
    BadMessage,
    ContainerReport,
    ContainerState,
    ForgetContainer,
    KillContainer,
    Message,
    StartContainer,
)
from master.core.deadlines import Cause, Deadline
from master.core.scheduler.types import Placement
from master.core.scheduler.unfit_agents import machines_for
from rm_backends.agents.agents import Agent, Hold
from rm_backends.agents.connections.messages import container_spec, exit_of, phase_of
from rm_backends.agents.connections.resync import Expected, Resync
from rm_backends.agents.connections.resync import resync as plan_resync
from rm_backends.agents.entries import PHASE_ORDER, Part, PoolEntry, Stage
from rm_backends.agents.peer_addresses import peer_addresses
from rm_backends.base import (
    AllocationRequest,
    Container,
    ContainerExit,
    ContainerPhase,
    FailureKind,
    LaunchSpec,
    LossKind,
    Lost,
    ReleaseAsked,
    ResourceChanged,
    RestoreRecord,
)
from rm_backends.outbox import Outbox
from windlass.base.clock import Clock
from windlass.base.ids import Ids

NO_DEADLINE = datetime.max.replace(tzinfo=UTC)


class Assignments:
    """Agents by id and held entries by allocation id. `changed` is called when the scheduler may decide otherwise."""

    def __init__(
        self, *, outbox: Outbox, clock: Clock, ids: Ids, epoch: int, changed: Callable[[], None]
    ) -> None:
        self.agents: dict[str, Agent] = {}
        self.entries: dict[str, PoolEntry] = {}
        self._outbox = outbox
        self._clock = clock
        self._ids = ids
        self._epoch = epoch
        self._changed = changed

    def can_place(self, request: AllocationRequest, placement: Placement) -> bool:
        """Whether a decision made on a snapshot still holds."""
        if sum(placement.values()) != request.slots or not placement:
            return False
        if request.slots == 0 and len(placement) != 1:
            return False
        for agent_id, slots in placement.items():
            agent = self.agents.get(agent_id)
            if agent is None or not agent.can_hold(slots):
                return False
            if agent.is_one_of(request.blocked_agents):
                return False
            if slots == 0 < request.slots:
                return False
            if not request.requires.are_met_by(
                agent.facts, machines_for(request.slots, agent.slot_count)
            ):
                return False
        return True

    def reserve(self, entry: PoolEntry, placement: Placement, *, backfilled: bool) -> None:
        """Take the slots and tell the master. The agent with most slots, then the lowest id, is rank 0."""
        order = list(placement)
        if len(order) > 1:
            order.sort(key=lambda agent_id: (-placement[agent_id], agent_id))
        containers = []
        addresses = peer_addresses([self.agents[agent_id] for agent_id in order])
        for rank, agent_id in enumerate(order):
            agent = self.agents[agent_id]
            slot_ids = tuple(agent.free_slot_ids()[: placement[agent_id]])
            container = Container(
                container_id=self._ids.uuid(),
                agent_id=agent_id,
                rank=rank,
                slot_ids=slot_ids,
                slot_kind=agent.kind_of(slot_ids),
                address=addresses[rank],
                site_node=agent.site_node,
            )
            containers.append(container)
            self._hold(entry, Part(container))
        entry.stage = Stage.RESERVED
        entry.granted_at = self._clock.now().timestamp()
        entry.backfilled = backfilled
        self.entries[entry.id] = entry
        self._outbox.post(
            entry.request.granted(tuple(containers), backfilled=backfilled),
            partial(self._grant_committed, entry),
        )

    def restore(self, record: RestoreRecord) -> None:
        """Take back what the store says is held. What it holds on agents that nobody remembers is lost."""
        entry = PoolEntry(record.request, stage=Stage.STARTED if record.started else Stage.RESERVED)
        entry.granted_at = entry.as_request.requested
        entry.grant_committed = True
        for container in record.containers:
            if container.container_id in record.ended_containers:
                entry.parts[container.container_id] = Part(container, ended=True)
            else:
                self._hold(entry, Part(container, confirmed=record.started))
        if next(entry.holding(), None) is None:
            return
        self.entries[entry.id] = entry
        for part in list(entry.holding()):
            if part.container.agent_id not in self.agents:
                self._lose_part(entry, part, f"agent {part.container.agent_id} is gone")
        self._changed()

    def start(self, entry: PoolEntry, spec: LaunchSpec) -> None:
        """Commit the reservation: start what its agents have not confirmed yet."""
        if entry.lost or entry.killed:
            return
        entry.spec = spec
        entry.stage = Stage.STARTED
        for part in entry.live():
            if not part.confirmed:
                self._send_start(entry, spec, part)

    def kill(self, entry: PoolEntry) -> None:
        """Give a reservation back; kill what was started. Repeating it repeats the message."""
        if entry.stage is Stage.RESERVED and not any(p.confirmed for p in entry.parts.values()):
            for part in list(entry.holding()):
                self._end_part(entry, part)
            if entry.grant_committed:
                reason = "killed before it was started"
                self._outbox.post(Lost(allocation_id=entry.id, reason=reason))
            return
        entry.killed = True
        entry.touched()
        for part in entry.live():
            self._send_kill(entry, part)
        self._changed()

    def was_given(
        self, agent: Agent, container_id: str, allocation_id: str, task_id: str | None = None
    ) -> bool:
        """Whether output of that container is expected from the agent. False: it is late, of what is over or lost.

        Raises BadMessage for what the agent never was given: a container, or its allocation and task, of others.
        """
        entry = self.entries.get(allocation_id)
        if entry is None:
            if container_id in agent.holds:
                raise BadMessage(f"spoke of container {container_id} as of {allocation_id}")
            return False
        part = entry.parts.get(container_id)
        if part is None or part.container.agent_id != agent.id:
            raise BadMessage(f"spoke of container {container_id}, which it was not given")
        if task_id not in (None, entry.request.task_id):
            raise BadMessage(f"spoke of container {container_id} as of task {task_id}")
        return not part.lost

    def report(self, agent: Agent, report: ContainerReport) -> None:
        """One container of `agent` moved on, or the agent repeats how it is."""
        entry = self.entries.get(report.allocation_id)
        part = entry.parts.get(report.container_id) if entry is not None else None
        stale = part is None or part.ended or part.lost or part.container.agent_id != agent.id
        if entry is None or part is None or stale:
            self._dismiss(agent, report)
            return
        part.confirmed = True
        phase = phase_of(report)
        if part.ending or PHASE_ORDER[phase] <= PHASE_ORDER[part.phase]:
            return
        exit_ = exit_of(report)
        if exit_ is not None:
            self._end(entry, part, exit_)
            return
        part.phase = phase
        self._outbox.post(
            ResourceChanged(
                allocation_id=entry.id,
                container_id=report.container_id,
                phase=phase,
                addresses=(part.container.address,),
            )
        )

    def resync(self, agent: Agent, listed: tuple[ContainerReport, ...]) -> Resync:
        """Compare what a connecting agent lists with what is expected on it. Changes nothing."""
        return plan_resync(listed, [self._expected(*held) for held in self._held_by(agent)])

    def carry_out(self, agent: Agent, plan: Resync) -> None:
        """Bring a just connected agent in line. Its Welcome is on the way already."""
        held = {part.container.container_id: (entry, part) for entry, part in self._held_by(agent)}
        for report in plan.reports:
            self.report(agent, report)
        for container_id in plan.start:
            entry, part = held[container_id]
            if entry.spec is not None:
                self._send_start(entry, entry.spec, part)
        for container_id in plan.kill:
            self._send_kill(*held[container_id])
        for container_id in plan.never_started:
            self._end(*held[container_id], _aborted("killed before it started"))
        for container_id in plan.vanished:
            self._end(*held[container_id], _failed(f"agent {agent.id} no longer knows it"))

    def lose(self, agent: Agent, reason: str, kind: LossKind = LossKind.MACHINE) -> None:
        """The agent is not coming back in time: what it ran is lost."""
        for entry, part in self._held_by(agent):
            if part.is_live:
                self._lose_part(entry, part, reason, kind)

    def stop_work(self, agent: Agent, reason: str, *, slot_id: int | None = None) -> None:
        """Take the agent, or one slot, away from what runs there. It ends as the agent's failure, not the task's."""
        for entry, part in self._held_by(agent):
            if not part.is_live or slot_id not in (None, *part.container.slot_ids):
                continue
            if entry.stage is Stage.STARTED or part.confirmed:
                part.stopped_because = reason
                self._send_kill(entry, part)
            else:
                self._lose_part(entry, part, reason)

    def ask_to_leave(self, agent: Agent, deadline: Deadline) -> None:
        """All that it runs: by the time at which the agent goes. What cannot be preempted is told only."""
        reason = f"agent {agent.id} goes {deadline.when}: {deadline.reason}"
        for entry, part in self._held_by(agent):
            if part.is_live:
                self.ask(entry, reason, deadline)

    def ask(self, entry: PoolEntry, reason: str, deadline: Deadline) -> None:
        """Ask an allocation to leave by then, or within its usual time, unless it was asked for an earlier time."""
        by = None if deadline.waits and entry.request.preemptible else deadline.moment
        leave_by = by or NO_DEADLINE
        asked = entry.leave_by is not None and entry.leave_by <= leave_by
        if asked or entry.killed or entry.lost:
            return
        entry.leave_by = leave_by
        entry.releasing = entry.releasing or entry.request.preemptible
        entry.touched()
        self._outbox.post(
            ReleaseAsked(
                allocation_id=entry.id,
                reason=reason,
                deadline=by,
                kind=(
                    LossKind.TIME_LIMIT if deadline.cause is Cause.JOB_LIMIT else LossKind.MACHINE
                ),
            )
        )
        self._changed()

    def note_service(self, agent: Agent) -> None:
        """Slots of the agent were taken out of service or back into it, or it has other slots now."""
        for entry, part in self._held_by(agent):
            part.closing = agent.closing(part.container.slot_ids)
            entry.touched()

    def _held_by(self, agent: Agent) -> list[tuple[PoolEntry, Part]]:
        held = []
        for container_id, hold in agent.holds.items():
            entry = self.entries[hold.allocation_id]
            part = entry.parts[container_id]
            if not part.lost:
                held.append((entry, part))
        return held

    def _expected(self, entry: PoolEntry, part: Part) -> Expected:
        return Expected(
            container_id=part.container.container_id,
            confirmed=part.confirmed,
            ending=part.ending,
            killed=entry.killed or part.stopped_because is not None,
            startable=entry.stage is Stage.STARTED and entry.spec is not None,
        )

    def _hold(self, entry: PoolEntry, part: Part) -> None:
        container = part.container
        entry.parts[container.container_id] = part
        if (agent := self.agents.get(container.agent_id)) is not None:
            agent.take(container.container_id, Hold(entry.id, container.slot_ids))

    def _end(self, entry: PoolEntry, part: Part, exit_: ContainerExit) -> None:
        """Report its end; its slots come back once that is committed."""
        part.ending = True
        part.phase = ContainerPhase.TERMINATED
        if part.stopped_because is not None:
            exit_ = _failed(part.stopped_because, exit_)
        event = ResourceChanged(
            allocation_id=entry.id,
            container_id=part.container.container_id,
            phase=ContainerPhase.TERMINATED,
            exit=exit_,
            addresses=(part.container.address,),
        )
        self._outbox.post(event, partial(self._end_committed, entry, part))

    def _end_committed(self, entry: PoolEntry, part: Part) -> None:
        container = part.container
        agent = self.agents.get(container.agent_id)
        self._end_part(entry, part)
        if agent is not None:
            self._send(
                agent, ForgetContainer(epoch=self._epoch, container_id=container.container_id)
            )

    def _end_part(self, entry: PoolEntry, part: Part) -> None:
        """Give its slots back; forget the allocation with its last part."""
        part.ended = True
        entry.touched()
        agent = self.agents.get(part.container.agent_id)
        if agent is not None:
            agent.give_back(part.container.container_id)
        if self.entries.get(entry.id) is entry and next(entry.holding(), None) is None:
            del self.entries[entry.id]
            self._outbox.discard(entry.id)
        self._changed()

    @staticmethod
    def _grant_committed(entry: PoolEntry) -> None:
        entry.grant_committed = True

    def _lose_part(
        self, entry: PoolEntry, part: Part, reason: str, kind: LossKind = LossKind.MACHINE
    ) -> None:
        part.lost = True
        entry.touched()
        if entry.lost_committed:
            self._end_part(entry, part)
        elif not entry.lost:
            entry.lost = True
            event = Lost(allocation_id=entry.id, reason=reason, kind=kind)
            self._outbox.post(event, partial(self._loss_committed, entry))
        self._changed()

    def _loss_committed(self, entry: PoolEntry) -> None:
        """Free what was lost, and end the siblings: an allocation does not go on without one of its parts."""
        entry.lost_committed = True
        for part in list(entry.holding()):
            if part.lost:
                self._end_part(entry, part)
        if self.entries.get(entry.id) is entry:
            self.kill(entry)

    def _dismiss(self, agent: Agent, report: ContainerReport) -> None:
        """A container that nobody expects: forget its exit, or end it."""
        if report.state is ContainerState.EXITED:
            message: Message = ForgetContainer(epoch=self._epoch, container_id=report.container_id)
        else:
            message = KillContainer(
                epoch=self._epoch,
                container_id=report.container_id,
                allocation_id=report.allocation_id,
            )
        self._send(agent, message)

    def _send_start(self, entry: PoolEntry, spec: LaunchSpec, part: Part) -> None:
        message = StartContainer(epoch=self._epoch, spec=container_spec(spec, part.container))
        self._send(self.agents.get(part.container.agent_id), message)

    def _send_kill(self, entry: PoolEntry, part: Part) -> None:
        message = KillContainer(
            epoch=self._epoch, container_id=part.container.container_id, allocation_id=entry.id
        )
        self._send(self.agents.get(part.container.agent_id), message)

    @staticmethod
    def _send(agent: Agent | None, message: Message) -> None:
        """To an agent that is not connected nothing is sent: the resync at its return does it."""
        if agent is not None and agent.link is not None:
            agent.link.send(message)


def _aborted(message: str) -> ContainerExit:
    return ContainerExit(exit_code=None, failure=FailureKind.ABORTED, message=message)


def _failed(message: str, seen: ContainerExit | None = None) -> ContainerExit:
    return ContainerExit(
        exit_code=seen.exit_code if seen else None,
        failure=FailureKind.AGENT_FAILED,
        message=message,
        at=seen.at if seen else None,
    )
