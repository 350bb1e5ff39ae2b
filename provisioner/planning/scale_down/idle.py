"""Which machines without work a pool gives back, and why it keeps the others. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from provisioner.day_hours import next_change
from provisioner.money.prices import usd_per_slot_hour
from provisioner.planning.plan_types import (
    Cancellation,
    KeepReason,
    Machine,
    MachinePhase,
    PoolInput,
    Termination,
)
from provisioner.planning.queued import is_unanswered
from provisioner.planning.scale_down.idle_time import IdleTimes
from provisioner.planning.scale_down.move_value import HOLD_S, stands_in_for
from provisioner.planning.scale_down.stop_value import StopChoice
from provisioner.planning.scale_up.remaining_budget import NOTICE_S

ROUNDING_S = 1e-3
"""Times since the epoch are that exact: who comes back when a time is over finds it over."""


def leaving(pool: PoolInput, spent: str | None, now: float) -> Mapping[str, tuple[float, str]]:
    """Machines whose work is to leave, until when and why: all that work, once a budget is spent that says so."""
    if spent is None:
        return {}
    busy = (m for m in pool.machines if m.phase is MachinePhase.UP and m.idle_s is None)
    return {machine.name: (now + NOTICE_S, spent) for machine in busy}


@dataclass(frozen=True, slots=True)
class IdleDecision:
    """What becomes of the machines without work."""

    terminations: Sequence[Termination] = ()
    kept: Mapping[str, KeepReason] = field(default_factory=dict)


def idle_decision(
    pool: PoolInput,
    claimed: Collection[str],
    times: IdleTimes,
    now: float,
    spent: str | None = None,
    stops: StopChoice | None = None,
) -> IdleDecision:
    """Those go that are idle long enough, claimed by nobody and not needed for the minimum; the dearest per slot first.

    `stops`: which of them are stopped only.

    Above max_instances (the limit was lowered) idle machines go at once; all do for which no money is left (`spent`).
    """
    settings = pool.settings
    queued = {c.intent_id for c in unclaimed_launches(pool, claimed, now)}
    present = [
        m for m in pool.machines if m.phase is not MachinePhase.OUT and m.group not in queued
    ]
    names = {m.name for m in present}
    idle = [m for m in present if m.idle_s is not None]
    if spent is not None:
        return IdleDecision([_ended(pool, machine, spent) for machine in idle])
    spare = len(present) - settings.min_instances
    above = len(present) - settings.max_instances
    terminations: list[Termination] = []
    kept: dict[str, KeepReason] = {}
    warm = settings.warm(now)
    ready = sum(m.name not in claimed and stands_in_for(m) not in names for m in idle)
    jobs = _Jobs(present)
    idle.sort(key=lambda m: (-usd_per_slot_hour(m.offer), -(m.idle_s or 0.0), m.name))
    for machine in idle:
        idle_s, limit_s = jobs.idle_s(machine), times.limit_s(machine)
        replaces = stands_in_for(machine)
        if machine.name in claimed:
            kept[machine.name] = KeepReason("work that waits starts on it")
        elif jobs.is_used(machine, claimed):
            kept[machine.name] = KeepReason("other nodes of its batch job are in use")
        elif replaces in names:
            until = now + HOLD_S - idle_s
            kept[machine.name] = KeepReason(f"the work of {replaces} moves to it", until)
        elif spare < jobs.left(machine):
            kept[machine.name] = KeepReason(f"min_instances is {settings.min_instances}")
        elif above <= 0 and ready <= warm:
            end = next_change(settings.warm_hours, now)
            kept[machine.name] = KeepReason(f"warm_agents is {warm}", None if end == inf else end)
        elif above <= 0 and idle_s < limit_s - ROUNDING_S:
            kept[machine.name] = KeepReason(times.why(machine), now + limit_s - idle_s)
        else:
            why = f"idle for {idle_s:.0f} s (limit {limit_s:.0f} s)"
            if above > 0:
                why = f"more instances than max_instances ({settings.max_instances})"
            stop = above <= 0 and stops is not None and stops.take(machine)
            terminations.append(_ended(pool, machine, why, stop=stop))
            jobs.end(machine)
            spare -= 1
            above -= 1
            ready -= 1
    return IdleDecision(terminations, kept)


class _Jobs:
    """Machines that end together with others: all of them, or none."""

    def __init__(self, present: Collection[Machine]) -> None:
        self._of: dict[str, list[Machine]] = {}
        for machine in present:
            if machine.offer.ends_together and machine.group:
                self._of.setdefault(machine.group, []).append(machine)
        self._ending: set[str] = set()

    def is_used(self, machine: Machine, claimed: Collection[str]) -> bool:
        """Another of them works, is claimed, or has not come yet."""
        others = self._of.get(machine.group, ())
        return any(one.idle_s is None or one.name in claimed for one in others)

    def idle_s(self, machine: Machine) -> float:
        """How long all of them have been without work."""
        return min(one.idle_s or 0.0 for one in self._of.get(machine.group, (machine,)))

    def left(self, machine: Machine) -> int:
        """How many machines fewer there would be without it."""
        if machine.group in self._ending:
            return 0
        return max(1, len(self._of.get(machine.group, ())))

    def end(self, machine: Machine) -> None:
        if machine.group in self._of:
            self._ending.add(machine.group)


def ready_machines(pool: PoolInput, claimed: Collection[str]) -> int:
    """Machines without work, there or on their way, that nobody has claimed."""
    names = {m.name for m in pool.machines if m.phase is not MachinePhase.OUT}
    return sum(
        (m.phase is MachinePhase.COMING or m.idle_s is not None)
        and m.name not in claimed
        and stands_in_for(m) not in names
        for m in pool.machines
        if m.phase is not MachinePhase.OUT
    )


def unclaimed_launches(
    pool: PoolInput, claimed: Collection[str], now: float
) -> Iterator[Cancellation]:
    """Launches of which nothing is known to exist, and nobody waits for: they go first, for they cost nothing yet.

    A group goes as a whole, the latest first, down to the minimum of the pool and to what is to be ready. None goes
    while an agent is there that no list has shown: its machine may be one of them, and what waited may run on it.
    """
    groups: dict[str, list[Machine]] = {}
    for machine in pool.machines:
        if machine.queued or machine.unmade or is_unanswered(machine):
            groups.setdefault(machine.group, []).append(machine)
    if not groups:
        return
    known = {machine.name for machine in pool.machines}
    if any(n.instance_id is not None and n.agent_id not in known for n in pool.demand.nodes):
        return
    present = {machine.name for machine in pool.machines if machine.phase is not MachinePhase.OUT}
    kept = sum(machine.phase is not MachinePhase.OUT for machine in pool.machines)
    ready = ready_machines(pool, claimed) - pool.settings.warm(now)
    spare = min(kept - pool.settings.min_instances, ready)
    for group, machines in sorted(groups.items(), key=lambda item: (item[1][0].age_s, item[0])):
        if any(one.name in claimed or stands_in_for(one) in present for one in machines):
            continue
        if len(machines) <= spare:
            yield Cancellation(intent_id=group, why="nobody waits for it any more")
            spare -= len(machines)


def _ended(pool: PoolInput, machine: Machine, why: str, *, stop: bool = False) -> Termination:
    return Termination(pool=pool.settings.pool, instance_id=machine.name, why=why, stop=stop)
