"""The rules of falling back: who may leave its pool, when, and where to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.fall_back import (
    COMING,
    REST_S,
    STUCK,
    SURE_S,
    FallBackRule,
    Prospect,
    Wait,
    answer,
    left,
    moved,
    refused,
    seen,
    targets,
)
from master.core.reasons import ReasonKind
from rm_backends.base import JobOrder

RULE = FallBackRule(pools=("b", "c"), after_s=300)
HOME = Wait(home="a", pool="a")
QUIET = sorted(set(ReasonKind) - STUCK - COMING)


def after(*looks: tuple[float, ReasonKind], hopeless: bool = False) -> Wait:
    wait = HOME
    for at, kind in looks:
        wait = seen(wait, kind, at, hopeless=hopeless)
    return wait


@pytest.mark.parametrize("kind", sorted(STUCK))
def test_a_pool_that_cannot_serve_it_is_left_after_a_while(kind: ReasonKind) -> None:
    wait = after((10, kind))
    assert targets(wait, RULE, 309) == ()
    assert targets(wait, RULE, 310) == ("b", "c")
    assert targets(wait, FallBackRule(pools=()), 310) == ()


@pytest.mark.parametrize("kind", sorted(set(ReasonKind) - STUCK))
def test_a_queue_a_share_or_a_machine_on_its_way_is_no_reason_to_leave(kind: ReasonKind) -> None:
    assert targets(after((0, kind)), RULE, 10_000) == ()
    assert targets(after((0, ReasonKind.QUOTA), (1, kind)), RULE, 10_000) == ()


@pytest.mark.parametrize("kind", QUIET)
def test_the_time_begins_anew_when_the_pool_could_serve_it_meanwhile(kind: ReasonKind) -> None:
    wait = after((0, ReasonKind.QUOTA), (100, kind), (200, ReasonKind.QUOTA))
    assert targets(wait, RULE, 499) == ()
    assert targets(wait, RULE, 500) == ("b", "c")


@pytest.mark.parametrize("kind", sorted(COMING))
def test_the_time_counts_on_when_a_machine_failed_to_come(kind: ReasonKind) -> None:
    wait = after((0, ReasonKind.NO_CAPACITY), (100, kind), (290, ReasonKind.NO_CAPACITY))
    assert targets(wait, RULE, 300) == ("b", "c")


def test_what_its_pool_can_never_hold_leaves_as_soon_as_that_is_sure() -> None:
    wait = after((10, ReasonKind.NO_SUCH_AGENT), hopeless=True)
    assert targets(wait, RULE, 10 + SURE_S - 1) == ()
    assert targets(wait, RULE, 10 + SURE_S) == ("b", "c")
    assert targets(wait, replace(RULE, after_s=0), 10) == ("b", "c")
    again = seen(wait, ReasonKind.LAUNCHING, 11, hopeless=True)
    assert not again.hopeless


def test_a_pool_that_refused_it_is_left_and_never_gone_back_to() -> None:
    wait = seen(refused(HOME), ReasonKind.QUOTA, 10)
    assert wait.hopeless
    assert left(wait, RULE) == ("b", "c")
    assert targets(wait, RULE, 10 + SURE_S) == ("b", "c")
    away = seen(moved(wait, "b", 20), ReasonKind.QUOTA, 21)
    assert left(away, RULE) == ("c",)
    assert targets(away, RULE, 21 + REST_S) == ("c",)
    assert left(refused(moved(away, "c", 500)), RULE) == ()
    assert left(refused(HOME), FallBackRule(pools=())) == ()


def test_from_another_pool_there_is_only_the_way_home_after_a_rest() -> None:
    away = seen(moved(HOME, "b", 1000), ReasonKind.QUOTA, 1001)
    assert targets(away, RULE, 1000 + REST_S - 1) == ()
    assert targets(away, RULE, 1000 + REST_S) == ("a",)


@pytest.mark.parametrize("kind", ReasonKind)
def test_a_pool_that_cannot_serve_it_after_all_hands_it_on_down_the_list(kind: ReasonKind) -> None:
    away = seen(moved(HOME, "b", 1000), kind, 1010)
    onward = ("a", "c") if kind in STUCK else ("a",)
    assert targets(away, RULE, 1010 + REST_S - 1) == ("a",)
    assert targets(away, RULE, 1010 + REST_S) == onward
    last = seen(moved(away, "c", 2000), kind, 2000)
    assert targets(last, RULE, 9000) == ("a",), "never back up the list"


def test_one_that_came_home_waits_anew() -> None:
    home = seen(moved(moved(HOME, "b", 0), "a", 200), ReasonKind.QUOTA, 201)
    quick = replace(RULE, after_s=10)
    assert targets(home, RULE, 500) == ()
    assert targets(home, RULE, 501) == ("b", "c")
    assert targets(home, quick, 200 + REST_S - 1) == ()
    assert targets(home, quick, 200 + REST_S) == ("b", "c")


def test_a_pool_that_would_launch_takes_one_at_a_time() -> None:
    stuck = after((0, ReasonKind.QUOTA))
    asking = dict.fromkeys(("1", "2", "3", "4"), stuck)
    given = answer(asking, {"1": Prospect.LAUNCH, "2": Prospect.START, "3": Prospect.LAUNCH})
    assert given.takes == ("1", "2")
    assert given.later == {"3"}


@pytest.mark.parametrize("kind", ReasonKind)
def test_home_is_better_only_if_it_serves_sooner(kind: ReasonKind) -> None:
    away = {"1": seen(moved(HOME, "b", 0), kind, 200)}
    assert answer(away, {}).takes == ()
    assert answer(away, {"1": Prospect.START}).takes == ("1",)
    coming = kind in COMING
    assert answer(away, {"1": Prospect.LAUNCH}).takes == (() if coming else ("1",))


@given(
    looks=st.lists(
        st.tuples(
            st.floats(0.1, 200),
            st.sampled_from(ReasonKind),
            st.booleans(),
            st.dictionaries(st.sampled_from("abc"), st.sampled_from(Prospect)),
        ),
        max_size=60,
    ),
    after_s=st.sampled_from((0.0, 5.0, 300.0)),
)
def test_walks(
    looks: list[tuple[float, ReasonKind, bool, Mapping[str, Prospect]]], after_s: float
) -> None:
    """Down its own list or home, only for a reason, never twice within the rest, whatever pools say."""
    rule, wait, now = FallBackRule(pools=("b", "c"), after_s=after_s), HOME, 0.0
    left_at, stuck_since = float("-inf"), None
    for seconds, kind, hopeless, prospects in looks:
        now += seconds
        wait = seen(wait, kind, now, hopeless=hopeless)
        if kind in QUIET:
            stuck_since = None
        elif kind in STUCK and stuck_since is None:
            stuck_since = now
        for pool in targets(wait, rule, now):
            if pool not in prospects or not answer({"1": wait}, {"1": prospects[pool]}).takes:
                continue
            assert now >= left_at + REST_S
            if wait.is_away and pool != "a":
                assert rule.pools.index(pool) > rule.pools.index(wait.pool)
                assert kind in STUCK
                assert stuck_since is not None
                assert now - stuck_since >= REST_S
            elif not wait.is_away:
                assert pool in rule.pools
                assert kind in STUCK
                assert stuck_since is not None
                assert now - stuck_since >= (min(SURE_S, after_s) if hopeless else after_s)
            wait, left_at, stuck_since = moved(wait, pool, now), now, None
            break


@given(
    limit=st.integers(0, 40),
    elsewhere=st.dictionaries(st.sampled_from("bcd"), st.integers(0, 20)),
    home=st.sampled_from("aez"),
)
def test_the_shares_of_all_pools_are_never_more_than_max_slots(
    limit: int, elsewhere: dict[str, int], home: str
) -> None:
    """Whatever each pool gives, up to its share and what the others have already."""
    order = JobOrder(
        job_id="j",
        submitted=datetime(2026, 1, 1, tzinfo=UTC),
        max_slots=limit,
        elsewhere=elsewhere,
    )
    given_away = {
        pool: min(slots, order.max_slots_in(pool) or 0) for pool, slots in elsewhere.items()
    }
    at_home = order.max_slots_in(home)
    assert at_home is not None
    assert at_home + sum(given_away.values()) <= limit
    assert order.as_job(home).max_slots == at_home
    if sum(elsewhere.values()) <= limit:
        assert given_away == elsewhere, "nobody who is there has to go"
        assert at_home == limit - sum(elsewhere.values())
    assert replace(order, max_slots=None).max_slots_in(home) is None
