"""What goes into a search and what comes out. All frozen and JSON-able, because both are logged in the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from windlass.base.formats.json_types import JsonMapping

RequestId: TypeAlias = str
"""UUID of a trial within its search, drawn from the search's own random stream."""


class ExitReason(StrEnum):
    ERRORED = "ERRORED"
    USER_CANCELED = "USER_CANCELED"
    USER_REQUESTED_STOP = "USER_REQUESTED_STOP"
    INVALID_HP = "INVALID_HP"
    INIT_INVALID_HP = "INIT_INVALID_HP"


@dataclass(frozen=True, slots=True)
class InitialTrials:
    """The search begins. Sent once."""


@dataclass(frozen=True, slots=True)
class TrialCreated:
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class ValidationCompleted:
    request_id: RequestId
    metrics: JsonMapping


@dataclass(frozen=True, slots=True)
class TrialExitedEarly:
    request_id: RequestId
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class TrialExited:
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class TrialProgress:
    request_id: RequestId
    fraction: float


@dataclass(frozen=True, slots=True)
class TrialContinued:
    """It had ended, perhaps unheard of, and runs again."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class TrialAdded:
    """A client adds a trial. It chose `key`: what it sends again with the same one is the same trial."""

    key: str
    hparams: JsonMapping
    checkpoint: str | None = None
    """Where the trial starts."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A user has seen enough of the trial: it is done."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class SearchClosed:
    """A client adds no trials any more."""


@dataclass(frozen=True, slots=True)
class PointChosen:
    """A sampler has chosen hyperparameters for a trial that waited for them."""

    request_id: RequestId
    hparams: JsonMapping


TrialEvent: TypeAlias = (
    TrialCreated
    | ValidationCompleted
    | TrialExitedEarly
    | TrialExited
    | TrialProgress
    | TrialContinued
    | StopAsked
    | PointChosen
)
"""About one trial, which must be there."""
Event: TypeAlias = InitialTrials | TrialAdded | SearchClosed | TrialEvent


@dataclass(frozen=True, slots=True)
class Create:
    """Make this trial."""

    request_id: RequestId
    trial_seed: int
    hparams: JsonMapping = field(default_factory=dict)
    checkpoint: str | None = None
    """Where it starts, if not where every trial of its experiment does."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End this trial gracefully: it is done."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The search is over."""

    cancel: bool = False
    failure: bool = False


Action: TypeAlias = Create | Stop | Shutdown
