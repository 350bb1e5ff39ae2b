"""Whether work can leave its machine, and whether what that saves is worth what it loses. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from master.core.scheduler.types import Running
from provisioner.planning.plan_types import Machine, MachinePhase
from provisioner.types import Market, Offer

SETTLED_S = 1800.0
"""Work that was moved or started is left alone for so long."""
RECENT_S = 1800.0
"""Work whose last checkpoint is older is not moved."""
RESTART_S = 60.0
LEAVE_S = 60.0
"""About how long work takes to leave: the machine is paid for meanwhile."""
HORIZON_S = 6 * 3600.0
"""Nobody knows what a machine would save after that."""
LEAST_SCORE = 2.0
"""What is saved over what is done again."""
LEAST_USD, LEAST_SHARE = 1.0, 0.05
"""What is saved is at least that much money, or that share of what the pool costs meanwhile."""
SPOT_MARGIN, MARGIN = 0.25, 0.05
"""By how much a machine in place of another is cheaper at least: spot prices go up and down."""
HOLD_S = 1800.0
"""So long a machine that was launched in place of another waits for the other's work."""


def stands_in_for(machine: Machine) -> str:
    """The machine whose work this one waits for; empty: it waits for none, or no more."""
    waits = machine.phase is MachinePhase.COMING or (
        machine.idle_s is not None and machine.idle_s < HOLD_S
    )
    return machine.replaces if waits else ""


def can_move(run: Running, now: float) -> bool:
    """It is asked to leave, writes a checkpoint, and goes on elsewhere with little lost."""
    checkpoint = run.last_checkpoint
    return (
        run.request.preemptible
        and not run.releasing
        and len(run.placement) == 1
        and now - run.started >= SETTLED_S
        and checkpoint is not None
        and now - checkpoint <= RECENT_S
    )


def left_s(runs: Sequence[Running], now: float) -> float:
    """How long the work will go on elsewhere: as is known, else as long again as it has run."""
    longest = max(
        (
            run.expected_end - now if run.expected_end is not None else now - run.started
            for run in runs
        ),
        default=0.0,
    )
    return min(HORIZON_S, max(0.0, longest - LEAVE_S))


def redone_usd(runs: Sequence[Running], slots: int, usd_per_hour: float, now: float) -> float:
    """What it costs to do again what a machine did since the last checkpoints, and to start again."""
    redone = sum(
        sum(run.placement.values()) * (now - (run.last_checkpoint or run.started) + RESTART_S)
        for run in runs
    )
    return usd_per_hour * redone / max(1, slots) / 3600.0


def is_cheaper(offer: Offer, usd: float, than_usd: float) -> bool:
    """By enough to change machines for it."""
    margin = SPOT_MARGIN if offer.key.market is Market.SPOT else MARGIN
    return usd <= (1.0 - margin) * than_usd


def pays(saved_usd: float, lost_usd: float, pool_usd: float) -> bool:
    """`pool_usd`: what the whole pool costs over the time in which that is saved."""
    enough = saved_usd >= LEAST_USD or saved_usd >= LEAST_SHARE * pool_usd
    return saved_usd > 0 and enough and saved_usd >= LEAST_SCORE * lost_usd
