"""Which machines without work a pool gives back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from provisioner.plan_types import Cancellation, Machine, Phase, PoolInput, Termination
from provisioner.prices import usd_per_slot_hour
from provisioner.purse import NOTICE_S


def leaving(pool: PoolInput, spent: str | None, now: float) -> Mapping[str, tuple[float, str]]:
    """Machines whose work is to leave, until when and why: all that work, once a budget is spent that says so."""
    if spent is None:
        return {}
    busy = (m for m in pool.machines if m.phase is Phase.UP and m.idle_s is None)
    return {machine.name: (now + NOTICE_S, spent) for machine in busy}


def idle_terminations(
    pool: PoolInput, claimed: Collection[str], spent: str | None = None
) -> Iterator[Termination]:
    """Idle long enough, claimed by nobody in this plan, not needed for the minimum; the dearest per slot first.

    Above max_instances (the limit was lowered) idle machines go at once; all do for which no money is left (`spent`).
    """
    settings = pool.settings
    queued = {c.intent_id for c in unclaimed_launches(pool, claimed)}
    kept = [m for m in pool.machines if m.phase is not Phase.OUT and m.group not in queued]
    if spent is not None:
        for machine in kept:
            if machine.idle_s is not None:
                yield Termination(pool=settings.pool, instance_id=machine.name, why=spent)
        return
    spare = len(kept) - settings.min_instances
    above = len(kept) - settings.max_instances
    idle = [m for m in kept if m.idle_s is not None and m.name not in claimed]
    idle.sort(key=lambda m: (-usd_per_slot_hour(m.offer), -(m.idle_s or 0.0), m.name))
    for machine in idle:
        if spare <= 0:
            return
        idle_s = machine.idle_s or 0.0
        if above > 0:
            why = f"more instances than max_instances ({settings.max_instances})"
        elif idle_s >= settings.max_idle_s:
            why = f"idle for {idle_s:.0f} s (limit {settings.max_idle_s:.0f} s)"
        else:
            continue
        yield Termination(pool=settings.pool, instance_id=machine.name, why=why)
        spare -= 1
        above -= 1


def unclaimed_launches(pool: PoolInput, claimed: Collection[str]) -> Iterator[Cancellation]:
    """Launches that the provider has not delivered and nobody waits for: they go first, for they cost nothing yet.

    A group goes as a whole, the latest first, down to the minimum of the pool.
    """
    groups: dict[str, list[Machine]] = {}
    for machine in pool.machines:
        if machine.queued:
            groups.setdefault(machine.group, []).append(machine)
    kept = sum(machine.phase is not Phase.OUT for machine in pool.machines)
    spare = kept - pool.settings.min_instances
    for group, machines in sorted(groups.items(), key=lambda item: (item[1][0].age_s, item[0])):
        if len(machines) <= spare and not any(machine.name in claimed for machine in machines):
            yield Cancellation(intent_id=group, why="nobody waits for it any more")
            spare -= len(machines)
