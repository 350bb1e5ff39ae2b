"""How slots are divided: the documented examples, caps, floors, remainders and turns."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.scheduler.policies.shares import Entitlement, divide


def entitlement(
    job_id: str,
    demand: int,
    weight: float = 1.0,
    *,
    floor: int = 0,
    gang: int = 1,
    stays: bool = False,
) -> Entitlement:
    return Entitlement(job_id, weight, demand, floor, gang, stays)


@pytest.mark.parametrize(
    ("capacity", "entitlements", "expected"),
    [
        pytest.param(8, [entitlement("a", 10), entitlement("b", 30)], [2, 6], id="by demand"),
        pytest.param(
            8, [entitlement("a", 10, 3.0), entitlement("b", 30)], [4, 4], id="by demand x weight"
        ),
        pytest.param(
            100, [entitlement("a", 10), entitlement("b", 30)], [10, 30], id="enough for all"
        ),
        pytest.param(
            12,
            [entitlement("a", 2, 9.0), entitlement("b", 20)],
            [2, 10],
            id="capped, rest flows on",
        ),
        pytest.param(
            5, [entitlement("a", 9), entitlement("b", 9)], [3, 2], id="remainder to the older"
        ),
        pytest.param(
            10,
            [entitlement("a", 10), entitlement("b", 20)],
            [3, 7],
            id="remainder to the largest remainder",
        ),
        pytest.param(8, [entitlement("a", 10, floor=5), entitlement("b", 30)], [5, 3], id="floor"),
        pytest.param(
            4,
            [entitlement("a", 9, floor=5), entitlement("b", 3)],
            [5, 0],
            id="floors above capacity",
        ),
        pytest.param(0, [entitlement("a", 3), entitlement("b", 3)], [0, 0], id="nothing to share"),
        pytest.param(
            8, [entitlement("a", 20), entitlement("b", 20, 0.0)], [7, 1], id="weight 0 gets a turn"
        ),
        pytest.param(
            8, [entitlement("a", 4), entitlement("b", 20, math.nan)], [4, 4], id="no weight at all"
        ),
        pytest.param(
            8, [entitlement("a", 8, gang=8), entitlement("b", 8, gang=8)], [8, 0], id="turn by age"
        ),
        pytest.param(
            8,
            [entitlement("a", 30), entitlement("b", 8, gang=8)],
            [8, 0],
            id="no older job is starved",
        ),
        pytest.param(
            16,
            [entitlement("a", 90), entitlement("b", 8, gang=8)],
            [8, 8],
            id="lifted, others shrink",
        ),
        pytest.param(
            8,
            [
                entitlement("a", 990),
                entitlement("b", 1, stays=True),
                entitlement("c", 1, stays=True),
                entitlement("d", 1),
            ],
            [5, 1, 1, 1],
            id="what stays passes the turn on",
        ),
        pytest.param(
            8,
            [entitlement("a", 990), entitlement("b", 1), entitlement("c", 1)],
            [7, 1, 0],
            id="one turn at a time",
        ),
    ],
)
def test_division(capacity: int, entitlements: list[Entitlement], expected: list[int]) -> None:
    assert list(divide(capacity, entitlements).values()) == expected


entitlements = st.lists(
    st.builds(
        lambda demand, weight, floor, gang: (demand, weight, min(floor, demand), gang),
        st.integers(0, 60),
        st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.0, 2.5, 100.0]),
        st.integers(0, 4),
        st.sampled_from([0, 1, 2, 4, 8]),
    ),
    max_size=12,
)


@given(capacity=st.integers(0, 80), rows=entitlements)
def test_division_is_complete_and_within_bounds(
    capacity: int, rows: list[tuple[int, float, int, int]]
) -> None:
    jobs = [
        entitlement(f"j{i:02d}", demand, weight, floor=floor, gang=gang)
        for i, (demand, weight, floor, gang) in enumerate(rows)
    ]
    shares = divide(capacity, jobs)
    floors = sum(job.floor for job in jobs)
    most = max(floors, min(capacity, sum(job.demand for job in jobs)))
    assert sum(shares.values()) <= most
    if all(job.gang <= 1 for job in jobs):
        assert sum(shares.values()) == most
    for job in jobs:
        assert job.floor <= shares[job.job_id] <= job.demand


@given(
    capacity=st.integers(0, 80),
    rows=st.lists(
        st.tuples(st.integers(1, 60), st.sampled_from([0.5, 1.0, 2.0])), min_size=1, max_size=12
    ),
)
def test_shares_of_single_slots_are_within_one_of_the_proportion(
    capacity: int, rows: list[tuple[int, float]]
) -> None:
    jobs = [entitlement(f"j{i:02d}", demand, weight) for i, (demand, weight) in enumerate(rows)]
    shares = divide(capacity, jobs)
    exact = proportional(capacity, rows)
    # One slot of rounding, and one that is lent to the job whose turn it is.
    for job, fair in zip(jobs, exact, strict=True):
        assert abs(shares[job.job_id] - fair) < 2 + 1e-6


def proportional(capacity: int, rows: list[tuple[int, float]]) -> list[float]:
    """The rule by its definition: deal in proportion, fix who is full, deal the rest again."""
    fair = [0.0] * len(rows)
    hungry = set(range(len(rows)))
    left = float(min(capacity, sum(demand for demand, _ in rows)))
    while hungry and left > 1e-9:
        total = sum(rows[i][0] * rows[i][1] for i in hungry)
        level = left / total
        full = {i for i in hungry if level * rows[i][1] >= 1.0}
        for i in full or hungry:
            fair[i] = float(rows[i][0]) if i in full else level * rows[i][0] * rows[i][1]
            left -= fair[i]
        if not full:
            break
        hungry -= full
    return fair
