"""The garbage collector rests while a decision is made, and is as it was afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from windlass.base.collector import paused_collector


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_rests_until_the_last_of_nested_blocks_ends() -> None:
    with paused_collector():
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_does_not_leave_it_off() -> None:
    with pytest.raises(KeyError), paused_collector():
        raise KeyError
    assert gc.isenabled()


def test_who_turned_it_off_finds_it_off() -> None:
    gc.disable()
    with paused_collector():
        pass
    assert not gc.isenabled()


def test_threads_that_overlap_keep_it_off_together() -> None:
    both_inside, first_left = Barrier(2, timeout=30), Barrier(2, timeout=30)

    def first() -> None:
        with paused_collector():
            both_inside.wait()
        first_left.wait()

    def second() -> bool:
        with paused_collector():
            both_inside.wait()
            first_left.wait()
            return gc.isenabled()

    with ThreadPoolExecutor(2) as threads:
        leaving, staying = threads.submit(first), threads.submit(second)
        leaving.result()
        assert staying.result() is False
    assert gc.isenabled()
