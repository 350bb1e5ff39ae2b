"""Followers are told where new lines are, in bounded memory, and never too little."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from master.logs.following import MAX_RANGES, Follower, Followers


@given(st.lists(st.integers(1, 5), max_size=3 * MAX_RANGES), st.integers(1, 50))
def test_the_ranges_cover_all_that_was_stored(sizes: list[int], look_every: int) -> None:
    follower, stored, covered, last = Follower(["t"]), set[int](), set[int](), 0
    for n, size in enumerate(sizes):
        follower.stored((last + 1, last + size))
        stored |= set(range(last + 1, last + size + 1))
        last += size + 1
        if n % look_every == 0:
            taken = follower.take()
            assert len(taken) <= MAX_RANGES
            covered |= {i for a, b in taken for i in range(a, b + 1)}
    assert follower.woken.is_set() or not follower.take()
    covered |= {i for a, b in follower.take() for i in range(a, b + 1)}
    assert stored <= covered | set(range(last + 1)) if sizes else not covered


def test_only_followers_of_the_task_wake() -> None:
    followers, ours, others = Followers(), Follower(["a", "b"]), Follower(["c"])
    followers.add(ours)
    followers.add(others)
    followers.stored({"b"}, (1, 2))
    assert ours.woken.is_set()
    assert not others.woken.is_set()
    assert ours.take() == [(1, 2)]
    followers.remove(ours)
    followers.stored({"a"}, (3, 3))
    assert ours.take() == []
    followers.remove(others)
    assert len(followers) == 0
