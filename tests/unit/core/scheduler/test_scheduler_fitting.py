"""Where gangs land: best and worst, whole agents, mixed sizes, blocked agents, ties."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.scheduler.fitting import (
    EXPECTED,
    REAL,
    FreeAgent,
    FreeSlots,
    RequestShape,
    whole_agents,
)
from master.core.scheduler.types import SchedulerSettings

BEST = SchedulerSettings(fitting_policy="best")
WORST = SchedulerSettings(fitting_policy="worst")
MIXED = SchedulerSettings(allow_heterogeneous_fits=True)


def shape(slots: int, *, single: bool = False, blocked: Iterable[str] = ()) -> RequestShape:
    return RequestShape(slots, single, frozenset(blocked))


def agents(**free_of_size: tuple[int, int]) -> list[FreeAgent]:
    return [(name, size, free, REAL) for name, (free, size) in free_of_size.items()]


@pytest.mark.parametrize(
    ("settings", "pool", "wanted", "placement"),
    [
        pytest.param(BEST, agents(a=(8, 8), b=(3, 8)), shape(2), {"b": 2}, id="best packs"),
        pytest.param(WORST, agents(a=(8, 8), b=(3, 8)), shape(2), {"a": 2}, id="worst spreads"),
        pytest.param(WORST, agents(a=(4, 8), b=(3, 4)), shape(2), {"b": 2}, id="worst by part"),
        pytest.param(BEST, agents(b=(4, 8), a=(4, 8)), shape(4), {"a": 4}, id="tie by id"),
        pytest.param(BEST, agents(a=(4, 4), b=(4, 8)), shape(4), {"b": 4}, id="idle ones last"),
        pytest.param(BEST, agents(a=(4, 8)), shape(5), None, id="too large"),
        pytest.param(
            BEST, agents(a=(2, 8), b=(3, 8)), shape(2, blocked="a"), {"b": 2}, id="blocked"
        ),
        pytest.param(BEST, agents(a=(2, 8)), shape(2, blocked="a"), None, id="all blocked"),
        pytest.param(
            BEST, agents(a=(8, 8), b=(8, 8)), shape(16), {"a": 8, "b": 8}, id="whole agents"
        ),
        pytest.param(
            BEST, agents(a=(8, 8), b=(8, 8)), shape(16, single=True), None, id="single agent"
        ),
        pytest.param(BEST, agents(a=(8, 8), b=(7, 8)), shape(16), None, id="only whole ones"),
        pytest.param(BEST, agents(a=(8, 8), b=(8, 8)), shape(12), None, id="12 never fits on 8s"),
        pytest.param(
            BEST,
            agents(a=(8, 8), b=(8, 8), c=(8, 8)),
            shape(16, blocked="a"),
            {"b": 8, "c": 8},
            id="whole agents, one blocked",
        ),
        pytest.param(
            BEST,
            agents(a=(8, 8), b=(4, 4), c=(4, 4), d=(4, 4)),
            shape(12),
            {"b": 4, "c": 4, "d": 4},
            id="one size only",
        ),
        pytest.param(
            MIXED, agents(a=(8, 8), b=(4, 4)), shape(12), {"a": 8, "b": 4}, id="mixed sizes"
        ),
        pytest.param(
            MIXED,
            agents(a=(8, 8), b=(6, 6), c=(4, 4)),
            shape(10),
            {"b": 6, "c": 4},
            id="not greedy",
        ),
        pytest.param(BEST, agents(a=(-2, 6), b=(0, 4)), shape(1), None, id="slots disabled in use"),
    ],
)
def test_placement(
    settings: SchedulerSettings,
    pool: list[FreeAgent],
    wanted: RequestShape,
    placement: dict[str, int] | None,
) -> None:
    assert FreeSlots(settings, pool).find(wanted) == placement


def test_a_search_uses_expected_agents_only_when_asked_and_last() -> None:
    view = FreeSlots(BEST, [("z", 8, 8, REAL), ("e", 8, 8, EXPECTED), ("f", 4, 4, EXPECTED)])
    assert view.find(shape(4), EXPECTED) == {"z": 4}
    assert view.find(shape(16)) is None
    assert view.find(shape(16), EXPECTED) == {"z": 8, "e": 8}


def test_slots_of_unknown_agents_are_not_given_back() -> None:
    view = FreeSlots(BEST, agents(a=(1, 8)))
    view.give_back({"a": 2, "gone": 8})
    assert view.free_on("a") == 3
    assert view.free_on("gone") == 0


@given(data=st.data())
def test_the_index_answers_like_a_plain_search_after_any_history(data: st.DataObject) -> None:
    policy = data.draw(st.sampled_from([BEST, WORST]))
    sizes = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=6))
    free = {f"a{i}": size for i, size in enumerate(sizes)}
    size_of = dict(free)
    view = FreeSlots(policy, [(name, size, size, REAL) for name, size in size_of.items()])
    taken: list[dict[str, int]] = []
    for _ in range(data.draw(st.integers(1, 30))):
        if taken and data.draw(st.booleans()):
            back = taken.pop(data.draw(st.integers(0, len(taken) - 1)))
            view.give_back(back)
            for name, slots in back.items():
                free[name] += slots
            continue
        wanted = data.draw(st.integers(1, 8))
        blocked = frozenset(data.draw(st.sets(st.sampled_from(sorted(free)), max_size=2)))
        found = view.find(RequestShape(wanted, True, blocked))
        fitting = [n for n in free if free[n] >= wanted and n not in blocked]
        assert (found is None) == (not fitting)
        if found is None:
            continue
        (name,) = found
        assert name in fitting
        if policy is BEST:
            assert free[name] == min(free[n] for n in fitting)
        else:
            assert free[name] / size_of[name] == max(free[n] / size_of[n] for n in fitting)
        view.take(found)
        free[name] -= wanted
        taken.append(found)
    assert {row[0]: row[2] for row in view.rows()} == free


@given(slots=st.integers(2, 40), sizes=st.lists(st.integers(1, 16), min_size=1, max_size=7))
def test_mixed_sizes_are_found_whenever_they_exist_with_the_fewest_agents(
    slots: int, sizes: list[int]
) -> None:
    idle = {size: sizes.count(size) for size in sizes}
    plan = whole_agents(slots, idle, mixed_sizes=True)
    fewest = next(
        (
            n
            for n in range(1, len(sizes) + 1)
            if any(sum(some) == slots for some in combinations(sizes, n))
        ),
        None,
    )
    assert (plan is None) == (fewest is None)
    if plan is not None:
        assert sum(size * count for size, count in plan.items()) == slots
        assert all(count <= idle[size] for size, count in plan.items())
        if len(plan) > 1:
            assert sum(plan.values()) == fewest


def test_large_sums_of_mixed_sizes_are_made_largest_first() -> None:
    idle = {7: 100, 5: 100}
    assert whole_agents(7 * 99 + 5, idle, mixed_sizes=True) == {7: 99, 5: 1}
