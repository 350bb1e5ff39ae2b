"""From the `searcher` section of a complete experiment configuration to a search method.

The configuration has been validated by then; what is checked here again is what a search could not survive: lengths
below 1, no rungs, numbers that overflow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from master.core.searcher.adaptive import Tournament
from master.core.searcher.asha import Asha, power, rung_units
from master.core.searcher.brackets import Bracket, Mode, bracket_rungs, plan_brackets, rung_count
from master.core.searcher.external import External
from master.core.searcher.grid import GridSearch
from master.core.searcher.random_search import RandomSearch
from master.core.searcher.space import Nested
from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonMapping

MAX_RUNGS = 100
"""More would mean a divisor so close to 1 that every rung stops nobody; it bounds states and planning."""

MAX_BRACKETS = 100
"""Same reason; the conservative mode makes one bracket per rung."""

MAX_FIRST_TRIALS = 20_000
"""Trials that start at once: twice what a master is built to keep alive."""

SearchMethod: TypeAlias = RandomSearch | GridSearch | Asha | Tournament | External

NAMES = ("single", "random", "grid", "async_halving", "adaptive_asha", "windlass_external")

REMOVED = ("custom", "pbt", "adaptive", "adaptive_simple", "sync_halving")
"""Names that old experiments may carry and no new one may use."""

AtLeastOne: TypeAlias = Annotated[int, Field(ge=1)]
AtLeastZero: TypeAlias = Annotated[int, Field(ge=0)]
Divisor: TypeAlias = Annotated[float, Field(gt=1, allow_inf_nan=False)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SingleSettings(_Settings):
    name: Literal["single"]


class RandomSettings(_Settings):
    name: Literal["random"]
    max_trials: AtLeastOne
    max_concurrent_trials: AtLeastZero = 16


class GridSettings(_Settings):
    name: Literal["grid"]
    max_concurrent_trials: AtLeastZero = 16


class ExternalSettings(_Settings):
    name: Literal["windlass_external"]


class _HalvingSettings(_Settings):
    metric: str
    smaller_is_better: bool = True
    max_trials: AtLeastOne
    max_time: AtLeastOne
    time_metric: str
    divisor: Divisor = 4
    max_concurrent_trials: AtLeastZero = 16


class AshaSettings(_HalvingSettings):
    name: Literal["async_halving"]
    num_rungs: Annotated[int, Field(ge=1, le=MAX_RUNGS)]


class AdaptiveSettings(_HalvingSettings):
    name: Literal["adaptive_asha"]
    max_rungs: AtLeastOne = 5
    mode: Mode = Mode.STANDARD
    bracket_rungs: Annotated[
        tuple[Annotated[int, Field(ge=1, le=MAX_RUNGS)], ...], Field(max_length=MAX_BRACKETS)
    ] = ()


Settings: TypeAlias = (
    SingleSettings
    | RandomSettings
    | GridSettings
    | AshaSettings
    | AdaptiveSettings
    | ExternalSettings
)


def _with_lengths(raw: Any) -> Any:
    """Drop nulls, and read the older `max_length: {unit: n}` where `max_time` and `time_metric` are absent."""
    if not isinstance(raw, Mapping):
        return raw
    given = {key: value for key, value in raw.items() if value is not None}
    length = given.get("max_length")
    is_old_style = "max_time" not in given and "time_metric" not in given
    if is_old_style and isinstance(length, Mapping) and len(length) == 1:
        [(given["time_metric"], given["max_time"])] = length.items()
    return given


_ADAPTER: TypeAdapter[Settings] = TypeAdapter(
    Annotated[
        Annotated[Settings, Field(discriminator="name")],
        BeforeValidator(_with_lengths),
    ]
)


def read_settings(searcher: JsonMapping) -> Settings:
    """Raises InvalidConfig naming every key that is wrong."""
    name = searcher.get("name")
    if name in REMOVED:
        raise _invalid(
            f"the '{name}' searcher has been removed and is not valid for new experiments"
        )
    if name not in NAMES:
        raise _invalid(f"<config>.searcher.name: must be one of {', '.join(NAMES)}, not {name!r}")
    try:
        return _ADAPTER.validate_python(searcher)
    except ValidationError as error:
        problems = [_problem(e) for e in error.errors(include_url=False)]
        raise InvalidConfig(problems, what="searcher") from None


def build_method(settings: Settings, space: Nested) -> SearchMethod:
    """Raises InvalidConfig for settings that are right one by one and impossible together."""
    method = _method(settings, space)
    if method.first_trials > MAX_FIRST_TRIALS:
        raise _invalid(
            f"<config>.searcher.max_concurrent_trials: {method.first_trials} trials would start at"
            f" once; the limit is {MAX_FIRST_TRIALS}"
        )
    return method


def _method(settings: Settings, space: Nested) -> SearchMethod:
    match settings:
        case SingleSettings():
            return RandomSearch.single()
        case RandomSettings():
            return RandomSearch(
                max_trials=settings.max_trials, max_concurrent=settings.max_concurrent_trials
            )
        case GridSettings():
            return GridSearch.over(space, settings.max_concurrent_trials)
        case ExternalSettings():
            return External()
        case AshaSettings():
            return _asha(
                settings,
                Bracket(settings.num_rungs, settings.max_trials, settings.max_concurrent_trials),
            )
        case AdaptiveSettings():
            return Tournament(tuple(_asha(settings, b) for b in adaptive_brackets(settings)))


def adaptive_brackets(settings: AdaptiveSettings) -> tuple[Bracket, ...]:
    """The brackets of an adaptive search, most rungs first."""
    rungs = settings.bracket_rungs or bracket_rungs(settings.mode, _rung_count(settings))
    if not math.isfinite(power(settings.divisor, max(rungs) - 1) * len(rungs)):
        raise _invalid(
            f"<config>.searcher.divisor: {settings.divisor} is too large for {max(rungs)} rungs"
        )
    return plan_brackets(
        rungs,
        divisor=settings.divisor,
        max_trials=settings.max_trials,
        max_concurrent=settings.max_concurrent_trials,
    )


def _rung_count(settings: AdaptiveSettings) -> int:
    count = rung_count(
        min(settings.max_rungs, MAX_RUNGS + 1),
        settings.max_time,
        settings.max_trials,
        settings.divisor,
    )
    if count > MAX_RUNGS:
        raise _invalid(
            f"<config>.searcher.divisor: {settings.divisor} makes more than {MAX_RUNGS} rungs;"
            " raise it or lower max_rungs"
        )
    return count


def _asha(settings: AshaSettings | AdaptiveSettings, bracket: Bracket) -> Asha:
    return Asha(
        units=rung_units(settings.max_time, settings.divisor, bracket.rungs),
        divisor=settings.divisor,
        max_trials=bracket.max_trials,
        max_concurrent=bracket.max_concurrent,
        metric=settings.metric,
        time_metric=settings.time_metric,
        smaller_is_better=settings.smaller_is_better,
    )


def _invalid(problem: str) -> InvalidConfig:
    return InvalidConfig([problem], what="searcher")


def _problem(error: ErrorDetails) -> str:
    # The first part of the location is the name of the searcher, which discriminates the union.
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error["loc"][1:])
    return f"<config>.searcher{path}: {error['msg']}"
