"""The hyperparameter space of an experiment, read once from its configuration into values that can be drawn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonMapping

MAX_INT = 2**63 - 1
"""Bounds are 64-bit in the wire format and in the random stream's rule for integers."""


@dataclass(frozen=True, slots=True)
class Const:
    value: Any


@dataclass(frozen=True, slots=True)
class IntRange:
    """Integers from `minval` to `maxval`, both included."""

    minval: int
    maxval: int
    count: int | None = None


@dataclass(frozen=True, slots=True)
class DoubleRange:
    """Doubles from `minval` to `maxval`, the upper end excluded when sampled and included in a grid."""

    minval: float
    maxval: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class LogRange:
    """`base ** x` with x from `minval` to `maxval`: the bounds are exponents."""

    base: float
    minval: float
    maxval: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Nested:
    """A map of names, in byte order of the names."""

    items: tuple[tuple[str, Space], ...]


Space: TypeAlias = Const | IntRange | DoubleRange | LogRange | Choice | Nested


def parse_space(hyperparameters: JsonMapping) -> Nested:
    """Read `hyperparameters` of a configuration; raises InvalidConfig with every problem found."""
    problems: list[str] = []
    space = _parse_nested(hyperparameters, "<config>.hyperparameters", problems)
    if problems:
        raise InvalidConfig(problems, what="hyperparameters")
    return space


def _parse_nested(names: JsonMapping, path: str, problems: list[str]) -> Nested:
    # Python orders strings by code point, which is the byte order of their UTF-8 form.
    return Nested(tuple((n, _parse(names[n], f"{path}.{n}", problems)) for n in sorted(names)))


def _parse(raw: Any, path: str, problems: list[str]) -> Space:
    if not isinstance(raw, Mapping):
        return Const(deepcopy(raw))
    if "type" not in raw:
        return _parse_nested(raw, path, problems)
    reader = _READERS.get(raw["type"]) if isinstance(raw["type"], str) else None
    if reader is None:
        problems.append(f"{path}.type: must be one of {', '.join(_READERS)}, not {raw['type']!r}")
        return Const(None)
    try:
        return reader(raw)
    except KeyError as missing:
        problems.append(f"{path}: {missing.args[0]} is a required property")
    except (TypeError, ValueError, OverflowError) as wrong:
        problems.append(f"{path}: {wrong}")
    return Const(None)


def _read_const(raw: JsonMapping) -> Space:
    return Const(deepcopy(raw["val"]))


def _read_int(raw: JsonMapping) -> Space:
    low, high = int(raw["minval"]), int(raw["maxval"])
    if max(abs(low), abs(high)) > MAX_INT:
        raise ValueError("minval and maxval must fit 64 bits")
    _check_order(low, high)
    return IntRange(low, high, _read_count(raw))


def _read_double(raw: JsonMapping) -> Space:
    low, high = float(raw["minval"]), float(raw["maxval"])
    _check_order(low, high)
    if not math.isfinite(high - low):
        raise ValueError("minval and maxval must be finite and not that far apart")
    return DoubleRange(low, high, _read_count(raw))


def _read_log(raw: JsonMapping) -> Space:
    base, low, high = float(raw["base"]), float(raw["minval"]), float(raw["maxval"])
    if not (base > 0 and math.isfinite(base)):
        raise ValueError(f"base must be greater than 0, not {base}")
    _check_order(low, high)
    try:
        finite = all(math.isfinite(base**end) for end in (low, high))
    except OverflowError:
        finite = False
    if not finite or not math.isfinite(high - low):
        raise ValueError(f"minval and maxval are exponents: {base} to their power is not finite")
    return LogRange(base, low, high, _read_count(raw))


def _read_choice(raw: JsonMapping) -> Space:
    values = raw["vals"]
    if not isinstance(values, list | tuple) or not values:
        raise ValueError("vals must be a list with at least one value")
    return Choice(tuple(deepcopy(v) for v in values))


def _read_count(raw: JsonMapping) -> int | None:
    count = raw.get("count")
    if count is None:
        return None
    if int(count) < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    return int(count)


def _check_order(low: float, high: float) -> None:
    # Equal bounds are refused at submission, but nothing here depends on that.
    if not low <= high:
        raise ValueError(f"minval must be less than maxval, but {low} and {high} are given")


_READERS: dict[str, Callable[[JsonMapping], Space]] = {
    "const": _read_const,
    "int": _read_int,
    "double": _read_double,
    "log": _read_log,
    "categorical": _read_choice,
}
