"""Budgets of users: gangs whose launch would exceed one are left out, and the rest is planned again. Pure.

A user is charged for the share of machines that the user's work holds, or that was bought for it; what stays idle is
the pool's. Gangs that fit what exists are never held up: it is paid for anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from master.core.reasons import Reason
from provisioner.planning.plan_types import MachinePhase, Plan, PlanInput
from provisioner.planning.scale_up.remaining_budget import (
    EXPECTED_RUN_S,
    MachineCommitment,
    RemainingBudget,
)
from provisioner.types import Gang, Offer

MOST_ROUNDS = 8
"""Then everything is held of users who are still above."""


def within_user_budgets(state: PlanInput, plan_pools: Callable[[PlanInput], Plan]) -> Plan:
    """The plan without launches that users may not cause; held gangs say why."""
    planned = plan_pools(state)
    if not state.budget.limit_users:
        return planned
    gangs = {gang.request_id: gang for pool in state.pools for gang in pool.demand.gangs}
    held: dict[str, Reason] = {}
    for round_ in range(MOST_ROUNDS + 1):
        over = _over(state, planned, gangs, all_of_them=round_ == MOST_ROUNDS)
        if not over:
            break
        held |= over
        planned = plan_pools(_without(state, held))
    return _explained(planned, held, gangs) if held else planned


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a gang would cost its user with what the plan buys for it."""

    gang: Gang
    usd_per_hour: float


def _over(
    state: PlanInput, planned: Plan, gangs: Mapping[str, Gang], *, all_of_them: bool
) -> dict[str, Reason]:
    costs: dict[str, float] = {}
    for launch in planned.launches:
        for claims in launch.claims:
            for request_id, usd in _shares(launch.offer, claims, gangs):
                costs[request_id] = costs.get(request_id, 0.0) + usd
    by_user: dict[str, list[_Wanted]] = {}
    for request_id, usd in costs.items():
        gang = gangs[request_id]
        if usd > 0 and state.budget.of_user(gang.user):
            by_user.setdefault(gang.user, []).append(_Wanted(gang, usd))
    return {
        request_id: reason
        for user, wanted in by_user.items()
        for request_id, reason in _too_much(user, wanted, state, gangs, all_of_them)
    }


def _too_much(
    user: str,
    wanted: Sequence[_Wanted],
    state: PlanInput,
    gangs: Mapping[str, Gang],
    all_of_them: bool,
) -> Iterator[tuple[str, Reason]]:
    """The oldest gangs come first."""
    remaining = _remaining(user, state, gangs)
    refused = False
    for each in sorted(wanted, key=lambda x: (x.gang.since, x.gang.request_id)):
        expected_s = each.gang.run_time_s or EXPECTED_RUN_S
        if remaining.affordable(each.usd_per_hour, expected_s) >= 1 and not (
            all_of_them and refused
        ):
            remaining.bought(each.usd_per_hour, expected_s)
        else:
            refused = True
            yield each.gang.request_id, remaining.reason(each.usd_per_hour, expected_s)


def _remaining(user: str, state: PlanInput, gangs: Mapping[str, Gang]) -> RemainingBudget:
    running = list(_running(user, state, gangs))
    rate = sum(each.usd_per_hour for each in running)
    return RemainingBudget(
        f"the work of {user}",
        state.budget.of_user(user),
        spent_usd=state.spending.users.month_usd_of(user, state.now, rate),
        running=running,
        now=state.now,
    )


def _running(user: str, state: PlanInput, gangs: Mapping[str, Gang]) -> Iterator[MachineCommitment]:
    for pool in state.pools:
        machines = {machine.name: machine for machine in pool.machines}
        for node in pool.demand.nodes:
            machine = machines.get(node.agent_id)
            held = node.users.get(user, 0)
            if machine is not None and held and node.slots:
                usd = machine.offer.usd_per_hour * held / node.slots
                yield MachineCommitment(usd, 0.0, EXPECTED_RUN_S)
        for machine in pool.machines:
            if machine.phase is MachinePhase.COMING:
                for request_id, usd in _shares(machine.offer, machine.claims, gangs):
                    if gangs[request_id].user == user:
                        yield MachineCommitment(usd, 0.0, EXPECTED_RUN_S)


def _shares(
    offer: Offer, claims: Iterable[str], gangs: Mapping[str, Gang]
) -> Iterator[tuple[str, float]]:
    """What each gang pays of a machine that is bought for these."""
    known = [gangs[request_id] for request_id in claims if request_id in gangs]
    alone = not any(gang.slots for gang in known)
    for gang in known:
        if alone:
            yield gang.request_id, offer.usd_per_hour / len(known)
        elif gang.slots and offer.slots:
            share = min(gang.slots, offer.slots) / offer.slots
            yield gang.request_id, offer.usd_per_hour * share


def _without(state: PlanInput, held: Mapping[str, Reason]) -> PlanInput:
    pools = tuple(
        replace(
            pool,
            demand=replace(
                pool.demand,
                gangs=tuple(g for g in pool.demand.gangs if g.request_id not in held),
            ),
        )
        for pool in state.pools
    )
    return replace(state, pools=pools)


def _explained(planned: Plan, held: Mapping[str, Reason], gangs: Mapping[str, Gang]) -> Plan:
    by_pool: dict[str, dict[str, Reason]] = {}
    for request_id, reason in held.items():
        by_pool.setdefault(gangs[request_id].pool, {})[request_id] = reason
    availabilities = tuple(
        replace(each, reasons={**each.reasons, **by_pool.get(each.pool, {})})
        for each in planned.availabilities
    )
    return replace(planned, reasons={**planned.reasons, **held}, availabilities=availabilities)
