"""What no new search may be: so large that creating its trials would keep a master busy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from master.core.searcher.grid import GridSearch
from master.core.searcher.search import Search
from master.core.searcher.space import Choice, Const, Nested, Space
from windlass.base.errors import InvalidConfig

MAX_POINTS = 10**9
"""Of a grid. None ever finishes a larger one."""
MAX_FIRST_VALUES = 1_000_000
"""Hyperparameters of all trials that start at once."""


def check_limits(search: Search) -> None:
    """Raises InvalidConfig that says what is too large, and what to lower."""
    method = search.method
    if isinstance(method, GridSearch) and method.max_trials > MAX_POINTS:
        raise InvalidConfig(
            [
                f"<config>.hyperparameters: the grid has more than {MAX_POINTS} points: lower their"
                " counts, or use the random search"
            ],
            what="searcher",
        )
    values = values_of(search.space)
    if method.first_trials * values > MAX_FIRST_VALUES:
        raise InvalidConfig(
            [
                f"<config>.searcher.max_concurrent_trials: {method.first_trials} trials with {values}"
                f" hyperparameters each would start at once; the limit is {MAX_FIRST_VALUES}"
                f" hyperparameters: set it to {max(1, MAX_FIRST_VALUES // values)} or less"
            ],
            what="searcher",
        )


def values_of(space: Space) -> int:
    """JSON values of the largest point."""
    match space:
        case Const(value):
            return _size(value)
        case Choice(values):
            return max(map(_size, values))
        case Nested(items):
            return 1 + sum(values_of(child) for _, child in items)
        case _:
            return 1


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        return 1 + sum(map(_size, value.values()))
    if isinstance(value, list | tuple):
        return 1 + sum(map(_size, value))
    return 1
