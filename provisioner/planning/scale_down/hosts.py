"""Machines that are up and what runs on them, for moving work from one to another. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from master.core.scheduler.types import Running
from provisioner.planning.plan_types import Machine, MachinePhase, PoolInput
from provisioner.planning.scale_down.move_value import can_move
from provisioner.types import MachineFacts, Node, Offer


class PlannedHost:
    """One machine, with what one plan has moved onto it so far."""

    __slots__ = ("aux", "facts", "free", "gets", "leaves", "machine", "node", "runs")

    def __init__(
        self, machine: Machine, node: Node, runs: Sequence[Running], facts: MachineFacts
    ) -> None:
        self.machine = machine
        self.node = node
        self.runs = runs
        self.facts = facts
        self.free = node.free_slots
        self.aux = node.free_aux
        self.leaves = False
        """This plan gives it up, or buys another in its place."""
        self.gets = False
        """This plan moves work onto it."""

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def offer(self) -> Offer:
        return self.machine.offer

    @property
    def used(self) -> int:
        return self.node.slots - self.node.free_slots

    @property
    def is_idle(self) -> bool:
        return self.machine.idle_s is not None and not self.runs

    def is_movable(self, now: float) -> bool:
        """All that runs on it is known and can move."""
        known = sum(run.placement[self.name] for run in self.runs)
        return bool(self.runs) and known == self.used and all(can_move(r, now) for r in self.runs)

    def takes(self, run: Running) -> bool:
        request = run.request
        return (
            self.free >= request.slots
            and (request.slots > 0 or self.aux > 0)
            and self.name not in request.blocked_agents
            and request.requires.are_met_by(self.facts)
        )

    def give(self, run: Running) -> None:
        self.free -= run.request.slots
        self.aux -= run.request.slots == 0


def hosts_of(
    pool: PoolInput, ending: Collection[str], facts_of: Callable[[Offer], MachineFacts]
) -> Iterator[PlannedHost]:
    """Those that may go on working: not those in `ending`, nor those that end by themselves."""
    machines = {m.name: m for m in pool.machines if m.phase is MachinePhase.UP}
    runs: dict[str, list[Running]] = {}
    for run in pool.running:
        for name in run.placement:
            runs.setdefault(name, []).append(run)
    for node in pool.demand.nodes:
        machine = machines.get(node.agent_id)
        usable = node.schedulable and node.connected and node.agent_id not in ending
        if machine is not None and usable and machine.ends_at is None:
            yield PlannedHost(machine, node, runs.get(machine.name, ()), facts_of(machine.offer))


def largest_first(runs: Sequence[Running]) -> list[Running]:
    return sorted(runs, key=lambda run: (-run.request.slots, run.request.id))


def targets_for(runs: Sequence[Running], hosts: Sequence[PlannedHost]) -> list[PlannedHost] | None:
    """For each run, largest first, the host with the fewest free slots that still fits it; None if one fits nowhere."""
    by_free: dict[int, list[PlannedHost]] = {}
    for host in hosts:
        if not host.leaves:
            by_free.setdefault(host.free, []).append(host)
    before: dict[str, tuple[int, int]] = {}
    targets: list[PlannedHost] = []
    for run in largest_first(runs):
        target = _best_fit(run, by_free)
        if target is None:
            break
        before.setdefault(target.name, (target.free, target.aux))
        by_free[target.free].remove(target)
        target.give(run)
        by_free.setdefault(target.free, []).append(target)
        targets.append(target)
    for target in targets:  # tried, not decided
        target.free, target.aux = before[target.name]
    return targets if len(targets) == len(runs) else None


def _best_fit(run: Running, by_free: Mapping[int, Sequence[PlannedHost]]) -> PlannedHost | None:
    for free in sorted(by_free):
        if free >= run.request.slots:
            for host in by_free[free]:
                if host.takes(run):
                    return host
    return None
