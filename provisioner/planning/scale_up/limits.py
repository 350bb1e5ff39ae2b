"""How much more a pool may buy: machines and money. Every purchase of a plan is booked here before it is made."""

from __future__ import annotations

from collections.abc import Iterator

from master.core.reasons import Reason
from provisioner.planning.plan_types import Machine, MachinePhase, PlanInput, PoolInput
from provisioner.planning.scale_down.idle_time import IdleTimes
from provisioner.planning.scale_up.remaining_budget import (
    MachineCommitment,
    RemainingBudget,
    expected_life_s,
)
from provisioner.planning.scale_up.remaining_quota import QuotasLeft
from provisioner.types import Offer


class PoolLimits:
    """What is left of the limits of one pool within one plan; what is bought counts for the cluster's budget, too."""

    def __init__(
        self,
        pool: PoolInput,
        state: PlanInput,
        cluster: RemainingBudget,
        idle_times: IdleTimes,
        quotas: QuotasLeft,
    ) -> None:
        settings = pool.settings
        self._quotas = quotas
        self.places = max(0, settings.max_instances - sum(x.in_pool for x in pool.machines))
        """Machines below `max_instances`."""
        self._idle_times = idle_times
        own = RemainingBudget(
            f"pool {settings.pool}",
            settings.budget,
            spent_usd=state.spending.pools.get(settings.pool, 0.0),
            running=_running(pool, idle_times) if settings.budget else (),
            now=state.now,
        )
        self._budgets = [remaining for remaining in (own, cluster) if remaining.budget]

    def affordable(self, offer: Offer) -> int:
        """How many more machines of that offer are allowed."""
        most = min(self.places, self._quotas.machines(offer))
        expected_s = self._life_s(offer) if self._budgets else 0.0
        for remaining in self._budgets:
            most = min(most, remaining.affordable(offer.usd_per_hour, expected_s))
        return int(most)

    def bought(self, offer: Offer, machines: int) -> None:
        self.places -= machines
        self._quotas.bought(offer, machines)
        for remaining in self._budgets:
            remaining.bought(offer.usd_per_hour, self._life_s(offer), machines)

    def reason(self, offer: Offer, machines: int) -> Reason | None:
        """Why so many of that offer are not bought although they may be; None: not for a quota or for money."""
        if self._quotas.machines(offer) < machines:
            return self._quotas.reason(offer, machines)
        usd, expected_s = offer.usd_per_hour * machines, self._life_s(offer)
        for remaining in self._budgets:
            if remaining.affordable(usd, expected_s) < 1:
                return remaining.reason(usd, expected_s)
        return None

    def must_leave(self) -> str | None:
        """Why running work is to be preempted; None: it is not."""
        for remaining in self._budgets:
            if remaining.budget.preempts and remaining.is_spent():
                return f"the budget of {remaining.whose} is spent ({remaining.budget.usd_per_month:.2f} USD per month)"
        return None

    def _life_s(self, offer: Offer) -> float:
        return expected_life_s(offer, self._idle_times.of(offer))


def cluster_purse(state: PlanInput) -> RemainingBudget:
    return RemainingBudget(
        "the cluster",
        state.budget,
        spent_usd=state.spending.cluster,
        running=(
            machine
            for pool in (state.pools if state.budget else ())
            for machine in _running(pool, IdleTimes(pool, state.memory))
        ),
        now=state.now,
    )


def _running(pool: PoolInput, idle_times: IdleTimes) -> Iterator[MachineCommitment]:
    for machine in pool.machines:
        idle_s = idle_times.of(machine.offer)
        yield MachineCommitment(
            machine.offer.usd_per_hour,
            machine.age_s,
            expected_life_s(machine.offer, idle_s),
            tail_s=_tail_s(machine, idle_s),
        )
    for stopped in pool.stopped:
        expected_s = pool.settings.stopped.expected_gap.total_seconds()
        yield MachineCommitment(stopped.offer.disk_usd_per_hour, stopped.stopped_s, expected_s)


def _tail_s(machine: Machine, idle_s: float) -> float:
    if machine.phase is MachinePhase.OUT:
        return 0.0
    return idle_s if machine.idle_s is None else max(0.0, idle_s - machine.idle_s)
