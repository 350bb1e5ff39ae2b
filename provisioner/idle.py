"""Which machines without work a pool gives back."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from provisioner.plan_types import Phase, PoolInput, Termination
from provisioner.prices import usd_per_slot_hour


def idle_terminations(pool: PoolInput, claimed: Collection[str]) -> Iterator[Termination]:
    """Idle long enough, claimed by nobody in this plan, not needed for the minimum; the dearest per slot first.

    Above max_instances (the limit was lowered) idle machines go at once.
    """
    settings = pool.settings
    kept = [machine for machine in pool.machines if machine.phase is not Phase.OUT]
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
