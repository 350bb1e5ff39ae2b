"""Doing many small blocking jobs at once, with the first error ending all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def workers(count: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads. If the block raises, jobs that have not begun are dropped."""
    pool = ThreadPoolExecutor(count, thread_name_prefix="storage")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def in_order(
    pool: ThreadPoolExecutor, jobs: Iterable[Callable[[], T]], *, ahead: int
) -> Iterator[T]:
    """Results in the order of the jobs; at most `ahead` are under way or wait to be taken."""
    remaining = iter(jobs)
    pending: deque[Future[T]] = deque(pool.submit(job) for job in islice(remaining, ahead))
    while pending:
        result = pending.popleft().result()
        pending.extend(pool.submit(job) for job in islice(remaining, 1))
        yield result


def run_all(jobs: Iterable[Callable[[], None]], *, count: int) -> None:
    with workers(count) as pool:
        for _ in in_order(pool, jobs, ahead=4 * count):
            pass
