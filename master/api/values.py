"""Times, numbers and enum words on the wire."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, overload

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from master.allocations.machine import AllocationPhase, AllocationState
from master.core.reasons import Reason, ReasonKind

Timestamp: TypeAlias = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Int64: TypeAlias = Annotated[str, WithJsonSchema({"type": "string", "format": "int64"})]
"""A 64-bit integer: JSON numbers would lose digits."""
Number: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"]
"""JSON has no words for the last three."""


class WaitingReason(TypedDict):
    """Why something waits."""

    kind: ReasonKind
    text: str
    retryAt: Timestamp | None


@overload
def time(value: datetime) -> str: ...
@overload
def time(value: datetime | None) -> str | None: ...
def time(value: datetime | None) -> str | None:
    """RFC 3339 with microseconds, always UTC."""
    if value is None:
        return None
    # Not strftime: its years before 1000 have less than four digits.
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


@overload
def epoch(seconds: float) -> str: ...
@overload
def epoch(seconds: float | None) -> str | None: ...
def epoch(seconds: float | None) -> str | None:
    """Seconds since the epoch as a time."""
    return None if seconds is None else time(datetime.fromtimestamp(seconds, UTC))


_PLAIN = frozenset({str, int, bool, NoneType})
"""JSON carries each of their values. Most of a configuration is one of these, which a call each would slow down."""


def finite(value: Any) -> Any:
    """A copy that JSON can carry: NaN and infinities as the strings that the clients read."""
    if isinstance(value, float):
        return value if math.isfinite(value) else _word(value)
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101  (the second takes long)
        return {
            str(key): item if type(item) in _PLAIN else finite(item) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [item if type(item) in _PLAIN else finite(item) for item in value]
    return value


def _word(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def sizes(resources: Mapping[str, int]) -> dict[str, str]:
    """64-bit integers are strings."""
    return {path: str(size) for path, size in resources.items()}


def reason(value: Reason | None) -> WaitingReason | None:
    if value is None:
        return None
    return {"kind": value.kind, "text": value.text, "retryAt": epoch(value.retry_at)}


RUN_STATES: Mapping[AllocationPhase, str] = {
    AllocationPhase.PENDING: "QUEUED",
    AllocationPhase.ASSIGNED: "STARTING",
    AllocationPhase.PULLING: "PULLING",
    AllocationPhase.STARTING: "STARTING",
    AllocationPhase.RUNNING: "RUNNING",
    AllocationPhase.TERMINATING: "RUNNING",
    AllocationPhase.TERMINATED: "QUEUED",
}
"""What users see of an active trial, by the phase of its newest allocation."""
RUN_ORDER = ("QUEUED", "PULLING", "STARTING", "RUNNING")


def allocation_state(allocation: AllocationState | None) -> str:
    return "QUEUED" if allocation is None else RUN_STATES[allocation.phase]
