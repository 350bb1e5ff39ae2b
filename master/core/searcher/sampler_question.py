"""What a sampler is asked: the space as axes of numbers, what was observed, what runs. Pure, and JSON-able.

The sampler knows neither names nor experiments, keeps nothing between two questions, and may run in another process.
Its points go back through the same axes.

Which results count: a trial of a search without rungs by its best metric once it has ended; in a search with rungs all
trials at the highest rung that has enough of them. What was stopped early would teach the sampler what learns fast, not
what ends well. One point in five stays random, so that the search never narrows to where it began.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from master.core.searcher.rung_view import describe_rungs
from master.core.searcher.search import SearchState
from master.core.searcher.space import Choice, Const, DoubleRange, IntRange, LogRange, Nested, Space
from master.core.searcher.types import RequestId
from windlass.base.formats.json_types import JsonMapping, JsonObject

ENOUGH = 10
"""Results without which points stay random."""
RANDOM_SHARE = 0.2
NEWEST = 2000
"""Results that a sampler is given: with more it would take seconds."""

Axis: TypeAlias = IntRange | DoubleRange | LogRange | Choice
Path: TypeAlias = tuple[str, ...]
Point: TypeAlias = list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What a sampler may know of one trial."""

    request_id: RequestId
    hparams: JsonMapping
    metric: float | None
    """The best so far, as reported."""
    has_ended: bool


def axes(space: Nested) -> list[tuple[Path, Axis]]:
    """The hyperparameters that are chosen, in depth-first byte order of names."""
    return list(_axes(space, ()))


def _axes(space: Space, path: Path) -> Iterator[tuple[Path, Axis]]:
    if isinstance(space, Nested):
        for name, child in space.items:
            yield from _axes(child, (*path, name))
    elif not isinstance(space, Const):
        yield path, space


def is_random(seed: int) -> bool:
    """Whether the trial with this seed keeps its random point."""
    return random.Random(seed).random() < RANDOM_SHARE


def question(
    space: Nested,
    state: SearchState,
    tried: Sequence[Tried],
    *,
    smaller_is_better: bool,
    count: int,
    seed: int,
) -> JsonObject | None:
    """For `count` points; None while there is too little to learn from, or nothing to choose."""
    chosen = axes(space)
    results = dict(_results(state, tried))
    if not chosen or len(results) < ENOUGH:
        return None
    done: list[Any] = []
    pending: list[Any] = []
    for trial in tried:
        if state.trials[trial.request_id].awaits_point:
            continue
        point = _point(chosen, trial.hparams)
        if point is None:
            continue
        if trial.request_id in results:
            done.append([point, results[trial.request_id]])
        elif not trial.has_ended:
            pending.append(point)
    return {
        "axes": [_bounds(axis) for _, axis in chosen],
        "done": done[-NEWEST:],
        "pending": pending[-NEWEST:],
        "minimize": smaller_is_better,
        "count": count,
        "seed": seed,
    }


def hparams_at(space: Nested, start: JsonMapping, point: Sequence[float]) -> JsonObject:
    """The hyperparameters of a random point with those of the sampler's in their places. Raises ValueError."""
    chosen = axes(space)
    if len(point) != len(chosen) or not all(math.isfinite(x) for x in point):
        raise ValueError(f"not a point of {len(chosen)} hyperparameters: {point!r}")
    full = deepcopy(dict(start))
    for (path, axis), x in zip(chosen, point, strict=True):
        *parents, name = path
        inner = full
        for parent in parents:
            inner = inner[parent]
        inner[name] = _value(axis, x)
    return full


def _results(state: SearchState, tried: Sequence[Tried]) -> Mapping[RequestId, float]:
    rungs = describe_rungs(state)
    if not rungs:
        return {t.request_id: t.metric for t in tried if t.has_ended and t.metric is not None}
    best: dict[RequestId, float] = {}
    for units in sorted({rung.units for rung in rungs}, reverse=True):
        best = {
            entry.request_id: entry.metric
            for rung in rungs
            for entry in rung.entries
            if rung.units == units and entry.metric is not None
        }
        if len(best) >= ENOUGH:
            break
    return best


def _bounds(axis: Axis) -> list[Any]:
    match axis:
        case Choice(values):
            return ["choice", 0, len(values) - 1]
        case IntRange(low, high):
            return ["int", low, high]
        case DoubleRange(low, high) | LogRange(_, low, high):
            return ["float", low, high]


def _point(chosen: Sequence[tuple[Path, Axis]], hparams: JsonMapping) -> Point | None:
    """Where hyperparameters are on the axes; None if they are not of this space."""
    try:
        return [_place(axis, _at(hparams, path)) for path, axis in chosen]
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None


def _at(hparams: JsonMapping, path: Path) -> Any:
    value: Any = hparams
    for name in path:
        value = value[name]
    return value


def _place(axis: Axis, value: Any) -> float:
    match axis:
        case Choice(values):
            return values.index(value)
        case IntRange(low, high):
            return min(max(int(value), low), high)
        case DoubleRange(low, high):
            return min(max(float(value), low), high)
        case LogRange(base, low, high):
            return min(max(math.log(value) / math.log(base), low), high)


def _value(axis: Axis, x: float) -> Any:
    match axis:
        case Choice(values):
            return deepcopy(values[min(max(round(x), 0), len(values) - 1)])
        case IntRange(low, high):
            return min(max(round(x), low), high)
        case DoubleRange(low, high):
            return min(max(float(x), low), high)
        case LogRange(base, low, high):
            return base ** min(max(float(x), low), high)
