"""The `searcher` section: one model per search method."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Tag

from master.core.expconf.models.lengths import LengthOrUnits, MaxLength
from master.core.expconf.models.schema import (
    TAG_MARK,
    Integer,
    Items,
    NonNegative,
    Number,
    Positive,
    Section,
    member_of,
)
from windlass.base.no_effect import NoEffect

REMOVED_SEARCHERS = {
    "custom": "windlass_external, whose trials a program adds over REST",
    "pbt": "windlass_external, whose trials a program starts from checkpoints of others",
    "adaptive": "adaptive_asha",
    "adaptive_simple": "adaptive_asha",
    "sync_halving": "async_halving",
}
"""Names that old experiments carry -> what to use instead. They parse, with any keys, and are refused for new ones."""
TIMED_SEARCHERS = ("adaptive_asha", "async_halving")
"""Those that stop trials early and so must know how long a trial is, and by which metric."""
COMMON_KEYS = frozenset(
    {"metric", "smaller_is_better", "source_trial_id", "source_checkpoint_uuid"}
)

DEFAULT_CONCURRENCY = 16
Divisor: TypeAlias = Annotated[Number, Field(gt=1)]


STOP_ONCE = NoEffect("only the stopping form of ASHA exists")


class SearcherBase(Section):
    """What all searchers have in common."""

    metric: str
    """The validation metric that trials are compared by."""
    smaller_is_better: bool = True
    """false: the larger."""
    source_trial_id: Integer | None = None
    """Every trial starts from the newest checkpoint of this one. Wins over `source_checkpoint_uuid`."""
    source_checkpoint_uuid: str | None = None
    """Every trial starts from this checkpoint."""


class Sampler(Section):
    """What chooses the hyperparameters of the trials, where it is not chance. The master needs the extra `optuna`."""

    name: Literal["optuna.tpe"]
    """Optuna's tree-structured Parzen estimator, over the trials of this search."""


class SingleSearcher(SearcherBase):
    """One trial."""

    name: Literal["single"]
    """This searcher."""
    max_length: LengthOrUnits | None = None
    """How long the trial trains; read by the program in the task."""


class RandomSearcher(SearcherBase):
    """Samples of the space; each trains to its own end."""

    name: Literal["random"]
    """This searcher."""
    max_trials: Positive
    """How many samples."""
    max_concurrent_trials: NonNegative = DEFAULT_CONCURRENCY
    """0: all at once."""
    max_length: LengthOrUnits | None = None
    """How long each trial trains; read by the program in the task."""
    windlass_sampler: Sampler | None = None
    """Chooses the samples after the results so far. Default: chance."""


class GridSearcher(SearcherBase):
    """Every point of the space; each trains to its own end."""

    name: Literal["grid"]
    """This searcher."""
    max_concurrent_trials: NonNegative = DEFAULT_CONCURRENCY
    """0: all at once."""
    max_length: LengthOrUnits | None = None
    """How long each trial trains; read by the program in the task."""


class AsyncHalvingSearcher(SearcherBase):
    """Samples of the space; those that lag behind at a rung are stopped."""

    name: Literal["async_halving"]
    """This searcher."""
    num_rungs: Positive
    """How often trials are compared; the last rung is `max_time`."""
    max_trials: Positive
    """How many samples."""
    divisor: Divisor = 4.0
    """One in so many goes on from a rung; each rung is so many times longer than the one before."""
    max_concurrent_trials: NonNegative = DEFAULT_CONCURRENCY
    """0: all at once."""
    max_time: Positive
    """How long the best trials train, in units of `time_metric`."""
    time_metric: str
    """The validation metric that says how far a trial is."""
    max_length: MaxLength | None = None
    """Of old releases; read by the program in the task."""
    windlass_sampler: Sampler | None = None
    """Chooses the samples after the results so far at the highest rung that has enough. Default: chance."""
    stop_once: Annotated[bool, STOP_ONCE] = False
    """Of old releases."""


class AdaptiveAshaSearcher(SearcherBase):
    """Several searches with async_halving side by side, from bold to careful."""

    name: Literal["adaptive_asha"]
    """This searcher."""
    max_trials: Positive
    """How many samples."""
    max_time: Positive
    """How long the best trials train, in units of `time_metric`."""
    time_metric: str
    """The validation metric that says how far a trial is."""
    mode: Literal["aggressive", "standard", "conservative"] = "standard"
    """How many of the searches stop trials early."""
    divisor: Divisor = 4.0
    """One in so many goes on from a rung; each rung is so many times longer than the one before."""
    max_rungs: Positive = 5
    """The most rungs of a search."""
    max_concurrent_trials: NonNegative = DEFAULT_CONCURRENCY
    """0: all at once."""
    bracket_rungs: Items[Positive] = ()
    """Not empty: the rungs of each bracket, instead of what mode and max_rungs would give."""
    max_length: LengthOrUnits | None = None
    """Of old releases; read by the program in the task."""
    windlass_sampler: Sampler | None = None
    """Chooses the samples after the results so far at the highest rung that has enough. Default: chance."""
    stop_once: Annotated[bool, STOP_ONCE] = False
    """Of old releases."""


class ExternalSearcher(SearcherBase):
    """Trials that a program adds over REST; each trains to its own end, or until the program stops it."""

    name: Literal["windlass_external"]
    """This searcher."""
    max_length: LengthOrUnits | None = None
    """How long each trial trains; read by the program in the task."""


Searcher: TypeAlias = Annotated[
    Annotated[SingleSearcher, Tag(TAG_MARK + "single")]
    | Annotated[RandomSearcher, Tag(TAG_MARK + "random")]
    | Annotated[GridSearcher, Tag(TAG_MARK + "grid")]
    | Annotated[AsyncHalvingSearcher, Tag(TAG_MARK + "async_halving")]
    | Annotated[AdaptiveAshaSearcher, Tag(TAG_MARK + "adaptive_asha")]
    | Annotated[ExternalSearcher, Tag(TAG_MARK + "windlass_external")],
    member_of(
        "name",
        "must be one of single, random, grid, async_halving, adaptive_asha or windlass_external",
    ),
]
SEARCHERS: tuple[type[SearcherBase], ...] = (
    SingleSearcher,
    RandomSearcher,
    GridSearcher,
    AsyncHalvingSearcher,
    AdaptiveAshaSearcher,
    ExternalSearcher,
)
