"""`grid`: every point of the expanded space, each once.

Points are computed from their number, never listed: a product of a few long axes would not fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from master.core.searcher.random_search import RandomSearch
from master.core.searcher.sampling import TrialFactory
from master.core.searcher.space import Choice, Const, DoubleRange, IntRange, LogRange, Nested, Space
from master.core.searcher.types import Create
from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonObject


def grid_size(space: Space) -> int:
    """Number of points; at least 1, as a space of nothing has one empty point."""
    match space:
        case Const():
            return 1
        case Choice(values):
            return len(values)
        case Nested(items):
            size = 1
            for _, child in items:
                size *= grid_size(child)
            return size
        case IntRange():
            return min(_count(space), space.maxval - space.minval + 1)
        case DoubleRange() | LogRange():
            return _count(space)


def grid_point(space: Space, index: int) -> Any:
    """The point of this number. Axes are in depth-first byte order of names, the last one varies fastest."""
    match space:
        case Const(value):
            return deepcopy(value)
        case Choice(values):
            return deepcopy(values[index])
        case IntRange(minval, maxval):
            return _spaced_int(minval, maxval, grid_size(space), index)
        case DoubleRange(minval, maxval):
            return _spaced(minval, maxval, grid_size(space), index)
        case LogRange(base, minval, maxval):
            return base ** _spaced(minval, maxval, grid_size(space), index)
        case Nested(items):
            named: JsonObject = {}
            for name, child in reversed(items):
                index, place = divmod(index, grid_size(child))
                named[name] = grid_point(child, place)
            return {name: named[name] for name, _ in items}


@dataclass(frozen=True, slots=True)
class GridAxis:
    """A hyperparameter that a grid varies, with its points."""

    path: tuple[str, ...]
    size: int
    values: tuple[Any, ...]
    """The first ones, if there are many."""


def grid_axes(space: Space, most: int, path: tuple[str, ...] = ()) -> Iterator[GridAxis]:
    """In depth-first byte order of names, each with at most so many values."""
    match space:
        case Nested(items):
            for name, child in items:
                yield from grid_axes(child, most, (*path, name))
        case Const():
            return
        case _:
            size = grid_size(space)
            values = tuple(grid_point(space, index) for index in range(min(size, most)))
            yield GridAxis(path, size, values)


def _count(axis: IntRange | DoubleRange | LogRange) -> int:
    if axis.count is None:
        raise InvalidConfig(
            ["grid search is in use but count was not provided"], what="hyperparameters"
        )
    return axis.count


def _spaced(minval: float, maxval: float, count: int, index: int) -> float:
    if count == 1:
        return (minval + maxval) / 2
    return minval + index * (maxval - minval) / (count - 1)


def _spaced_int(minval: int, maxval: int, count: int, index: int) -> int:
    if count == 1:
        return _round_half_away(minval + maxval, 2)
    return _round_half_away(minval * (count - 1) + index * (maxval - minval), count - 1)


def _round_half_away(numerator: int, denominator: int) -> int:
    """Nearest integer to the fraction, halves away from zero; exact at any size."""
    nearest = (2 * abs(numerator) + denominator) // (2 * denominator)
    return nearest if numerator >= 0 else -nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSearch(RandomSearch):
    """Takes the points from the last to the first. None is ever replaced: a point that fails would fail again."""

    space: Nested
    replace_invalid: bool = False

    @classmethod
    def over(cls, space: Nested, max_concurrent: int) -> GridSearch:
        return cls(max_trials=grid_size(space), max_concurrent=max_concurrent, space=space)

    def create(self, nth: int, trials: TrialFactory) -> Create:
        return trials.at(grid_point(self.space, self.max_trials - 1 - nth))
