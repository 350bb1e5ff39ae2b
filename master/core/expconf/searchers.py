"""The `searcher` section: one model per search method."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Tag

from master.core.expconf.lengths import LengthOrUnits, MaxLength
from master.core.expconf.schema import (
    TAG_MARK,
    Integer,
    Items,
    NonNegative,
    Number,
    Positive,
    Section,
    member_of,
)

REMOVED_SEARCHERS = ("custom", "adaptive", "adaptive_simple", "sync_halving")
"""Names that old experiments carry; they parse, with any keys, and are refused for new experiments."""
TIMED_SEARCHERS = ("adaptive_asha", "async_halving")
"""Those that stop trials early and so must know how long a trial is, and by which metric."""
COMMON_KEYS = frozenset(
    {"metric", "smaller_is_better", "source_trial_id", "source_checkpoint_uuid"}
)

DEFAULT_CONCURRENCY = 16
Divisor: TypeAlias = Annotated[Number, Field(gt=1)]


class SearcherBase(Section):
    metric: str
    smaller_is_better: bool = True
    source_trial_id: Integer | None = None
    """Warm start from this trial's best checkpoint. Wins over `source_checkpoint_uuid`."""
    source_checkpoint_uuid: str | None = None


class SingleSearcher(SearcherBase):
    name: Literal["single"]
    max_length: LengthOrUnits | None = None


class RandomSearcher(SearcherBase):
    name: Literal["random"]
    max_trials: Positive
    max_concurrent_trials: NonNegative = DEFAULT_CONCURRENCY
    """0: all at once."""
    max_length: LengthOrUnits | None = None


class GridSearcher(SearcherBase):
    name: Literal["grid"]
    max_concurrent_trials: NonNegative = DEFAULT_CONCURRENCY
    max_length: LengthOrUnits | None = None


class AsyncHalvingSearcher(SearcherBase):
    name: Literal["async_halving"]
    num_rungs: Positive
    max_trials: Positive
    divisor: Divisor = 4.0
    max_concurrent_trials: NonNegative = DEFAULT_CONCURRENCY
    max_time: Positive
    """In units of `time_metric`."""
    time_metric: str
    max_length: MaxLength | None = None
    stop_once: bool = False
    """Accepted and ignored: only the stopping form exists."""


class AdaptiveAshaSearcher(SearcherBase):
    name: Literal["adaptive_asha"]
    max_trials: Positive
    max_time: Positive
    time_metric: str
    mode: Literal["aggressive", "standard", "conservative"] = "standard"
    divisor: Divisor = 4.0
    max_rungs: Positive = 5
    max_concurrent_trials: NonNegative = DEFAULT_CONCURRENCY
    bracket_rungs: Items[Positive] = ()
    """Not empty: the rungs of each bracket, instead of what mode and max_rungs would give."""
    max_length: LengthOrUnits | None = None
    stop_once: bool = False


Searcher: TypeAlias = Annotated[
    Annotated[SingleSearcher, Tag(TAG_MARK + "single")]
    | Annotated[RandomSearcher, Tag(TAG_MARK + "random")]
    | Annotated[GridSearcher, Tag(TAG_MARK + "grid")]
    | Annotated[AsyncHalvingSearcher, Tag(TAG_MARK + "async_halving")]
    | Annotated[AdaptiveAshaSearcher, Tag(TAG_MARK + "adaptive_asha")],
    member_of(
        "name",
        'is not an object where object["name"] is one of '
        "'single', 'random', 'grid', 'async_halving', or 'adaptive_asha'",
    ),
]
SEARCHERS: tuple[type[SearcherBase], ...] = (
    SingleSearcher,
    RandomSearcher,
    GridSearcher,
    AsyncHalvingSearcher,
    AdaptiveAshaSearcher,
)
