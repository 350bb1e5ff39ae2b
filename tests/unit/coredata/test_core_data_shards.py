"""Samples over ranks: each one once, in the same order, however often and on however many ranks training goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass import core
from windlass.core.data import ShardedSampler, ShardedStream, Shuffled

lengths = st.integers(1, 100)
sizes = st.integers(1, 7)
batch_sizes = st.integers(1, 9)


class Rank(core.DummyDistributedContext):
    """One of several, without the connection to the others: sharding needs none."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size


def samplers(length: int, size: int, *, drop_last: bool = False) -> list[ShardedSampler]:
    return [
        ShardedSampler(length, Rank(rank, size), seed=3, drop_last=drop_last)
        for rank in range(size)
    ]


def batches(sampler: ShardedSampler, batch_size: int) -> Iterator[list[int]]:
    """What a loader makes of it."""
    indices = iter(sampler)
    while batch := list(islice(indices, batch_size)):
        yield batch


def run(ranks: list[ShardedSampler], batch_size: int, steps: int | None = None) -> list[int]:
    """All ranks in step; what they took."""
    taken: list[int] = []
    for sampler in ranks:
        for batch in islice(sampler.track(batches(sampler, batch_size), batch_size), steps):
            taken += batch
    return taken


@settings(max_examples=40)
@given(length=lengths, seed=st.integers(), epoch=st.integers(0, 10**6))
def test_a_shuffled_epoch_has_every_sample_once(length: int, seed: int, epoch: int) -> None:
    order = Shuffled(length, seed, epoch)
    assert sorted(order) == list(range(length))
    assert list(order) == list(Shuffled(length, seed, epoch))


def test_the_order_is_the_same_everywhere_and_changes_with_seed_and_epoch() -> None:
    order = list(Shuffled(10, seed=7, epoch=0))
    assert order == [
        6,
        2,
        0,
        5,
        1,
        7,
        3,
        8,
        4,
        9,
    ]  # must stay: states of earlier versions count on it
    assert list(Shuffled(10, seed=8, epoch=0)) != order
    assert list(Shuffled(10, seed=7, epoch=1)) != order
    assert order[-1] == Shuffled(10, 7, 0)[-1]
    with pytest.raises(IndexError, match="10 is not a place in an epoch of 10 samples"):
        Shuffled(10, 7, 0)[10]


def test_every_sample_is_first_equally_often() -> None:
    first = Counter(Shuffled(5, seed=0, epoch=epoch)[0] for epoch in range(1000))
    assert set(first) == set(range(5))
    assert all(150 < count < 250 for count in first.values())


def test_a_place_in_a_billion_samples_needs_no_list() -> None:
    order = Shuffled(10**9, seed=1, epoch=0)
    assert len({order[place] for place in range(10**9 - 50, 10**9)}) == 50


@given(length=lengths, size=sizes, drop_last=st.booleans())
def test_ranks_take_equally_many_and_together_all(length: int, size: int, drop_last: bool) -> None:
    ranks = samplers(length, size, drop_last=drop_last)
    taken = [list(sampler) for sampler in ranks]
    assert {len(indices) for indices in taken} == {len(ranks[0])}
    times = Counter(index for indices in taken for index in indices)
    if drop_last:
        assert max(times.values(), default=1) == 1
        assert len(times) == length // size * size
    else:
        assert set(times) == set(range(length))
        assert sum(times.values()) - length < size


@given(
    length=lengths,
    before=sizes,
    after=sizes,
    batch_before=batch_sizes,
    batch_after=batch_sizes,
    steps=st.integers(0, 40),
)
def test_going_on_with_other_ranks_repeats_and_leaves_out_none(
    length: int, before: int, after: int, batch_before: int, batch_after: int, steps: int
) -> None:
    ranks = samplers(length, before)
    taken = run(ranks, batch_before, steps)
    states = [sampler.state_dict() for sampler in ranks]
    assert all(state == states[0] for state in states)
    state = json.loads(json.dumps(states[0]))

    resumed = samplers(length, after)
    for sampler in resumed:
        sampler.load_state_dict(state)
    if state["epoch"] == 0:
        taken += run(resumed, batch_after)
    assert {sampler.epoch for sampler in resumed} == {1}
    times = Counter(taken)
    assert set(times) == set(range(length))
    assert sum(times.values()) - length < max(before, after)  # padded, once


def test_what_a_loader_has_only_fetched_ahead_is_not_counted() -> None:
    sampler = ShardedSampler(10, shuffle=False)
    ahead = [list(batch) for batch in batches(sampler, 2)]
    seen = list(islice(sampler.track(ahead, 2), 3))
    assert seen == [[0, 1], [2, 3], [4, 5]]
    assert sampler.state_dict() == {"epoch": 0, "consumed": 6, "length": 10, "seed": None}
    assert list(sampler) == [6, 7, 8, 9]
    assert len(sampler) == 4


def test_epochs_go_on_with_the_one_that_had_begun() -> None:
    first = ShardedSampler(6, seed=1)
    whole = [(e, i) for e in first.epochs(3) for i in first.track(first)]
    assert len(whole) == 18

    second = ShardedSampler(6, seed=1)
    seen: list[tuple[int, int]] = []
    for epoch in second.epochs(3):
        for index in second.track(second):
            seen.append((epoch, index))
            if len(seen) == 8:
                break
        if len(seen) == 8:
            break
    third = ShardedSampler(6, seed=1)
    third.load_state_dict(second.state_dict())
    assert third.state_dict()["consumed"] == 2
    assert seen + [(e, i) for e in third.epochs(3) for i in third.track(third)] == whole
    assert third.epoch == 3


def test_epochs_that_nobody_tracks_go_on_too() -> None:
    sampler = ShardedSampler(4)
    assert [len(list(sampler)) for _ in sampler.epochs(2)] == [4, 4]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"length": 11}, "length was 11 and is now 10"),
        ({"seed": 5}, "seed was 5 and is now 0"),
        ({"consumed": -1}, "consumed must be an integer of 0 or more, not -1"),
        ({"epoch": "1"}, "epoch must be an integer of 0 or more, not '1'"),
        ({"epoch": None}, "pass what state_dict"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, object], words: str) -> None:
    sampler = ShardedSampler(10)
    good = {"epoch": 2, "consumed": 4, "length": 10, "seed": 0}
    sampler.load_state_dict(good)
    with pytest.raises(ValueError, match=words):
        sampler.load_state_dict({**good, **change})
    assert sampler.state_dict() == good


def test_between_epochs_the_dataset_may_grow() -> None:
    sampler = ShardedSampler(12)
    sampler.load_state_dict({"epoch": 2, "consumed": 0, "length": 10, "seed": 0})
    assert (sampler.epoch, len(sampler)) == (2, 12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ShardedSampler(0), "length must be 1 or more, not 0"),
        (lambda: next(ShardedSampler(2).track([], 0)), "batch_size must be 1 or more, not 0"),
        (lambda: ShardedSampler(2).set_epoch(-1), "epoch must be 0 or more, not -1"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


@given(length=st.integers(0, 60), size=sizes, drop_last=st.booleans(), start=st.integers(0, 60))
def test_a_stream_is_shared_as_a_dataset_is(
    length: int, size: int, drop_last: bool, start: int
) -> None:
    streams = [
        ShardedStream(lambda _: iter(range(length)), Rank(rank, size), drop_last=drop_last)
        for rank in range(size)
    ]
    for stream in streams:
        stream.load_state_dict({"epoch": 0, "consumed": start})
    taken = [list(stream) for stream in streams]
    assert len({len(samples) for samples in taken}) == 1
    times = Counter(sample for samples in taken for sample in samples)
    left = list(range(start, length))
    if drop_last:
        assert sorted(times.elements()) == left[: len(left) // size * size]
    else:
        assert set(left) <= set(times)
        assert 0 <= sum(times.values()) - len(left) < size


def test_a_stream_goes_on_at_the_sample() -> None:
    opened: list[int] = []

    def open_epoch(epoch: int) -> Iterator[str]:
        opened.append(epoch)
        return (f"{epoch}:{number}" for number in range(5))

    first = ShardedStream(open_epoch)
    assert list(islice(first.track(first), 3)) == ["0:0", "0:1", "0:2"]
    second = ShardedStream(open_epoch)
    second.load_state_dict(first.state_dict())
    seen = [sample for _ in second.epochs(2) for sample in second.track(second)]
    assert seen == ["0:3", "0:4", "1:0", "1:1", "1:2", "1:3", "1:4"]
    assert opened == [0, 0, 1]


def test_it_imports_the_standard_library_only() -> None:
    program = "import sys, windlass.core.data; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "windlass.core.data" in loaded
    assert {"torch", "numpy", "pydantic", "obstore", "httpx2"} & loaded == set()
