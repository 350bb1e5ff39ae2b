"""Quotas that a provider tells beforehand: nothing is asked for beyond, and the number is said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.types import Market, Offer, PoolDemand, PoolSettings, Quota
from tests.fakes.fleet_world import a_gang, an_offer


def vcpus(left: float, each: float = 32.0, name: str = "vCPUs of P") -> Quota:
    return Quota(name=name, left=left, each=each)


def planned(*slots: int, offers: tuple[Offer, ...], pools: int = 1, asking: int = 0) -> Plan:
    def pool(name: str) -> PoolInput:
        gangs = tuple(a_gang(f"{name}{n}", size) for n, size in enumerate(slots))
        machines = tuple(
            Machine(
                name=f"{name}-asking-{n}",
                offer=offers[0],
                phase=MachinePhase.COMING,
                asking=True,
                claims=("somebody else",),
            )
            for n in range(asking)
        )
        return PoolInput(
            settings=PoolSettings(pool=name, max_instances=100),
            offers=offers,
            demand=PoolDemand(pool=name, gangs=gangs),
            machines=machines,
        )

    return plan(PlanInput(now=1000.0, pools=tuple(pool(f"p{n}") for n in range(pools))))


def bought(decision: Plan) -> int:
    return sum(launch.count for launch in decision.launches)


def test_no_more_is_asked_for_than_the_quota_has() -> None:
    four = an_offer(4, 4.0, quota=vcpus(70.0))
    decision = planned(4, 4, 4, offers=(four,))
    assert bought(decision) == 2
    (reason,) = [r for r in decision.reasons.values() if r.kind is ReasonKind.QUOTA]
    assert reason.text == "gpu-4 in a: needs 32 of quota vCPUs of P, 6 are left"


def test_a_gang_over_nodes_waits_whole() -> None:
    four = an_offer(4, 4.0, quota=vcpus(70.0))
    decision = planned(12, offers=(four,))
    assert not decision.launches
    assert "needs 96 of quota vCPUs of P, 70 are left" in decision.reasons["p00"].text


def test_offers_and_pools_share_a_quota_of_one_name() -> None:
    offers = tuple(an_offer(4, 4.0, zone=zone, quota=vcpus(96.0)) for zone in "ab")
    assert bought(planned(4, 4, offers=offers, pools=3)) == 3


def test_what_was_asked_for_and_not_answered_counts() -> None:
    assert bought(planned(4, 4, 4, offers=(an_offer(4, 4.0, quota=vcpus(96.0)),), asking=2)) == 1


def test_machines_that_came_after_the_count_take_of_what_was_left() -> None:
    """Whatever was known of the quota when they were bought."""
    now, told = (
        1000.0,
        an_offer(4, 4.0, quota=Quota(name="x", left=96.0, each=32.0, counted_at=900.0)),
    )
    machines = [
        Machine(name=f"i-{age:.0f}", offer=an_offer(4, 4.0), phase=MachinePhase.UP, age_s=age)
        for age in (50.0, 99.0, 101.0)
    ]
    gangs = tuple(a_gang(f"g{n}", 4) for n in range(3))
    pool = PoolInput(
        settings=PoolSettings(pool="p", max_instances=100),
        offers=(told,),
        demand=PoolDemand(pool="p", gangs=gangs),
        machines=tuple(machines),
    )
    decision = plan(PlanInput(now=now, pools=(pool,)))
    assert bought(decision) == 1
    texts = {r.text for r in decision.reasons.values() if r.kind is ReasonKind.QUOTA}
    assert texts == {"gpu-4 in a: needs 32 of quota x, 0 are left"}


def test_spot_over_its_quota_is_not_waited_for() -> None:
    spot = an_offer(4, 1.0, market=Market.SPOT, quota=vcpus(0.0))
    dear = an_offer(4, 4.0)
    (launch,) = planned(4, offers=(spot, dear)).launches
    assert launch.offer == dear


@pytest.mark.parametrize("quota", [None, Quota(name="x", left=0.0, each=0.0)])
def test_what_takes_nothing_of_a_quota_has_none(quota: Quota | None) -> None:
    assert bought(planned(4, 4, offers=(an_offer(4, 4.0, quota=quota),))) == 2


@given(
    st.lists(st.sampled_from([0, 1, 2, 4, 8, 16]), max_size=12),
    st.floats(0, 400),
    st.integers(1, 3),
)
def test_plans_stay_within_quotas(slots: list[int], left: float, pools: int) -> None:
    limited: dict[str, Any] = {"quota": vcpus(left)}
    offers = (an_offer(4, 4.0, **limited), an_offer(8, 7.0, zone="b", **limited))
    decision = planned(*slots, offers=offers, pools=pools)
    assert bought(decision) * 32.0 <= left
    assert len(decision.reasons) == pools * len(slots)
