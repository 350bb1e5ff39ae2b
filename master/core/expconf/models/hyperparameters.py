"""The search space: typed leaves in nested maps. Bare values have become `const` before (see `normalise`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, Tag, model_validator
from typing_extensions import TypeAliasType

from master.core.expconf.models.schema import (
    TAG_MARK,
    Integer,
    Item,
    Items,
    Number,
    Positive,
    discriminated,
)

HYPERPARAMETER_TYPES = ("int", "double", "log", "const", "categorical")


class Const(Item):
    """The same in every trial; a bare value is read as this."""

    type: Literal["const"]
    """This kind."""
    val: Any
    """Any JSON."""


class Int(Item):
    """An integer from minval to maxval, both included."""

    type: Literal["int"]
    """This kind."""
    minval: Integer
    """The smallest."""
    maxval: Integer
    """The largest."""
    count: Positive | None = None
    """Points of a grid; other searches ignore it."""

    @model_validator(mode="after")
    def _ordered(self) -> Int:
        _check_ordered(self.minval, self.maxval)
        return self


class Double(Item):
    """A number from minval up to, not including, maxval."""

    type: Literal["double"]
    """This kind."""
    minval: Number
    """The smallest."""
    maxval: Number
    """The bound above; a grid reaches it."""
    count: Positive | None = None
    """Points of a grid; other searches ignore it."""

    @model_validator(mode="after")
    def _ordered(self) -> Double:
        _check_ordered(self.minval, self.maxval)
        return self


class Log(Item):
    """`base ** x` for x uniform in minval..maxval: the bounds are exponents."""

    type: Literal["log"]
    """This kind."""
    minval: Number
    """The smallest exponent."""
    maxval: Number
    """The largest exponent."""
    base: Annotated[Number, Field(gt=0)]
    """What is raised to it."""
    count: Positive | None = None
    """Points of a grid; other searches ignore it."""

    @model_validator(mode="after")
    def _checked(self) -> Log:
        for name, exponent in (("minval", self.minval), ("maxval", self.maxval)):
            try:
                finite = math.isfinite(float(self.base) ** exponent)
            except (OverflowError, ZeroDivisionError):
                finite = False
            if not finite:
                raise ValueError(f"base to the power of {name} is too large for a number")
        _check_ordered(self.minval, self.maxval)
        return self


class Categorical(Item):
    """One of a list."""

    type: Literal["categorical"]
    """This kind."""
    vals: Annotated[Items[Any], Field(min_length=1)]
    """Any JSON each."""


def _check_ordered(minval: float, maxval: float) -> None:
    if not minval < maxval:
        raise ValueError("minval must be less than maxval")


def _kind(value: Any) -> str | None:
    if isinstance(value, Mapping):
        if "type" not in value:
            return TAG_MARK + "nested"
        value = value["type"]
        return TAG_MARK + value if isinstance(value, str) else None
    name = getattr(value, "type", None)
    return TAG_MARK + name if isinstance(name, str) else None


Leaf: TypeAlias = Const | Int | Double | Log | Categorical

_CHOICE = discriminated(
    _kind,
    'if a hyperparameter object\'s ["type"] is set, it must be one of '
    "'int', 'double', 'log', 'const', or 'categorical'",
)

if TYPE_CHECKING:
    # Type checkers follow a plain recursive alias; pydantic needs the named one with its tags.
    Hyperparameter: TypeAlias = Leaf | dict[str, "Hyperparameter"]
else:
    Hyperparameter = TypeAliasType(
        "Hyperparameter",
        Annotated[
            Annotated[Const, Tag(TAG_MARK + "const")]
            | Annotated[Int, Tag(TAG_MARK + "int")]
            | Annotated[Double, Tag(TAG_MARK + "double")]
            | Annotated[Log, Tag(TAG_MARK + "log")]
            | Annotated[Categorical, Tag(TAG_MARK + "categorical")]
            | Annotated[dict[str, "Hyperparameter"], Tag(TAG_MARK + "nested")],
            _CHOICE,
        ],
    )


def grid_gaps(space: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of leaves that a grid search cannot expand because they have no count. Takes raw, normalised maps."""
    if not isinstance(space, Mapping):
        return
    for name, value in space.items():
        if not isinstance(value, Mapping):
            continue
        if "type" not in value:
            yield from grid_gaps(value, (*where, name))
        elif value["type"] in ("int", "double", "log") and value.get("count") is None:
            yield (*where, name)
