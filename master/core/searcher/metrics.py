"""Reading the two numbers that a halving search needs from what a trial reported."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonMapping

WORST = sys.float_info.max
"""Rank of a trial that failed or diverged, in the order where smaller is better. Finite, so that JSON can carry it."""

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""How JSON carries what its numbers cannot say, on the wire and in the store."""


def ranked_metric(metrics: JsonMapping, name: str, *, smaller_is_better: bool) -> float:
    """The reported metric in the order where smaller is better; anything not finite ranks worst."""
    value = _number(metrics, name, f"error parsing searcher metric ({name}) from")
    if not math.isfinite(value):
        return WORST
    return value if smaller_is_better else -value


def reported_units(metrics: JsonMapping, name: str) -> int:
    """How far the trial says it is, in whole units of the time metric."""
    what = f"error parsing searcher time metric ({name}) in"
    value = _number(metrics, name, what)
    if not math.isfinite(value):
        raise InvalidArgument(f"{what} validation metrics: {value} is not a length of training")
    return int(value)


def missing_metric(name: str, reported: Iterable[str]) -> str:
    """The sentence about a metric that the searcher cannot find."""
    return (
        f'metric "{name}" of the searcher was not in the validation metrics; reported: '
        f"{', '.join(sorted(reported)) or 'nothing'}"
    )


def _number(metrics: JsonMapping, name: str, what: str) -> float:
    if name not in metrics:
        raise InvalidArgument(missing_metric(name, metrics))
    value = metrics[name]
    if isinstance(value, str) and value in NON_FINITE:
        return NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"{what} validation metrics: {value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
