"""Places in the queue: any moves give the order that a plain list gives, exactly."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.jobs import SetPlace
from master.core.scheduler.queue_order import priority_of, queue_key
from master.core.scheduler.types import Job, SchedulerSettings
from master.jobs.positions import END, MAX_DIGITS, Side, place_beside
from windlass.base.errors import Conflict

SETTINGS = SchedulerSettings(type="priority", default_priority=42)
IDS = "abcdef"


def job(id_: str, submitted: float, priority: int | None = None) -> Job:
    return Job(id=id_, submitted=submitted, priority=priority)


class Queue:
    """Jobs that are moved as a master would."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = {one.id: one for one in jobs}

    def move(self, job_id: str, side: Side, anchor_id: str) -> SetPlace | None:
        place = place_beside(list(self.jobs.values()), SETTINGS, job_id, anchor_id, side)
        if place is not None:
            moved = replace(self.jobs[job_id], position=place.position, priority=place.priority)
            self.jobs[job_id] = moved
        return place

    def order(self) -> str:
        ordered = sorted(self.jobs.values(), key=lambda one: queue_key(one, SETTINGS))
        return "".join(one.id for one in ordered)


class ListedQueue:
    """The same as a list for each priority."""

    def __init__(self, *jobs: Job) -> None:
        self.priority = {one.id: priority_of(one, SETTINGS) for one in jobs}
        self.rows: dict[int, list[str]] = {}
        for one in sorted(jobs, key=lambda one: queue_key(one, SETTINGS)):
            self.rows.setdefault(self.priority[one.id], []).append(one.id)

    def move(self, job_id: str, side: Side, anchor_id: str) -> None:
        if job_id == anchor_id:
            return
        self.rows[self.priority[job_id]].remove(job_id)
        row = self.rows[self.priority[anchor_id]]
        row.insert(row.index(anchor_id) + (side is Side.BEHIND), job_id)
        self.priority[job_id] = self.priority[anchor_id]

    def order(self) -> str:
        return "".join("".join(self.rows[priority]) for priority in sorted(self.rows))


times = st.floats(min_value=0, max_value=4e9, allow_nan=False)
priorities = st.sampled_from([None, 1, 42, 99])
moves = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from(Side), st.sampled_from(IDS)), max_size=40
)


@given(
    submitted=st.lists(times, min_size=len(IDS), max_size=len(IDS), unique=True),
    given_priorities=st.lists(priorities, min_size=len(IDS), max_size=len(IDS)),
    moves=moves,
)
def test_any_moves_give_the_order_that_a_list_gives(
    submitted: list[float], given_priorities: list[int | None], moves: list[tuple[str, Side, str]]
) -> None:
    """Ends may meet others at the very same position, which is said; the order is then as before."""
    jobs = [job(*one) for one in zip(IDS, submitted, given_priorities, strict=True)]
    queue, listed = Queue(*jobs), ListedQueue(*jobs)
    for move in moves:
        before = queue.order()
        try:
            queue.move(*move)
        except Conflict:
            assert queue.order() == before
            continue
        listed.move(*move)
        assert queue.order() == listed.order()


@given(moves=moves)
def test_jobs_that_came_minutes_apart_can_always_be_moved(
    moves: list[tuple[str, Side, str]],
) -> None:
    jobs = [job(id_, 60.0 * n) for n, id_ in enumerate(IDS)]
    queue, listed = Queue(*jobs), ListedQueue(*jobs)
    for job_id, side, anchor_id in moves:
        there = listed.order()
        listed.move(job_id, side, anchor_id)
        place = queue.move(job_id, side, anchor_id)
        assert queue.order() == listed.order()
        assert (place is None) == (listed.order() == there)


def test_a_move_goes_half_way_to_the_neighbour_or_a_second_beyond_the_end() -> None:
    queue = Queue(job("a", 10), job("b", 20), job("c", 30))
    assert queue.move("c", Side.AHEAD, "b") == SetPlace(Decimal(15), 42)
    assert queue.move("b", Side.AHEAD, "a") == SetPlace(Decimal(10) - END, 42)
    assert queue.move("a", Side.BEHIND, "c") == SetPlace(Decimal(15) + END, 42)
    assert queue.order() == "bca"


def test_the_moved_job_takes_the_priority_of_the_other() -> None:
    queue = Queue(job("a", 10, 1), job("b", 20, 50), job("c", 30, 50))
    assert queue.move("a", Side.BEHIND, "b") == SetPlace(Decimal(25), 50)
    assert queue.order() == "bac"


@pytest.mark.parametrize(
    ("job_id", "side", "anchor"),
    [
        ("a", Side.AHEAD, "a"),
        ("a", Side.BEHIND, "a"),
        ("a", Side.AHEAD, "b"),
        ("b", Side.BEHIND, "a"),
        ("b", Side.AHEAD, "c"),
        ("c", Side.BEHIND, "b"),
    ],
)
def test_what_stands_there_already_is_left_alone(job_id: str, side: Side, anchor: str) -> None:
    assert Queue(job("a", 10), job("b", 20), job("c", 30)).move(job_id, side, anchor) is None


def test_a_job_of_another_priority_is_moved_even_if_it_is_next_in_the_queue() -> None:
    queue = Queue(job("a", 10, 1), job("b", 5, 50))
    assert queue.move("b", Side.BEHIND, "a") == SetPlace(Decimal(11), 1)


def test_no_move_is_rounded() -> None:
    """Hundreds of moves into one gap, where floats would have met after some fifty."""
    queue = Queue(job("a", 1.7e9), job("b", 1.7e9 + 1e-6), job("x", 1.8e9), job("y", 1.9e9))
    queue.move("x", Side.BEHIND, "a")
    for n in range(300):
        moved, expected = ("xy", "axyb") if n % 2 else ("yx", "ayxb")
        queue.move(moved[0], Side.BEHIND, "a")
        assert queue.order() == expected


def test_a_gap_that_was_used_too_often_says_the_way_out() -> None:
    queue = Queue(job("a", 0), job("b", 1), job("x", 2), job("y", 3))

    def squeeze() -> None:
        for n in range(2 * MAX_DIGITS):
            queue.move("xy"[n % 2], Side.BEHIND, "a")

    with pytest.raises(Conflict, match="set the priority of the jobs around it"):
        squeeze()
    assert queue.order() in ("axyb", "ayxb")


def test_equal_neighbours_cannot_be_separated_but_the_way_out_works() -> None:
    queue = Queue(job("a", 10), job("b", 10), job("x", 5))
    for side, anchor in ((Side.AHEAD, "b"), (Side.BEHIND, "a")):
        with pytest.raises(Conflict, match="move x ahead of a, and then a ahead of x"):
            queue.move("x", side, anchor)
    queue.move("x", Side.AHEAD, "a")
    queue.move("a", Side.AHEAD, "x")
    assert queue.order() == "axb"
