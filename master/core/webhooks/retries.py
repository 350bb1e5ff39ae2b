"""What an attempt means: it is done, it is tried again at a time, or nobody will have it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 3600.0
GIVEN_UP_AFTER = timedelta(days=2)
"""Since the event."""
LONGEST_RETRY_AFTER_S = 24 * 3600.0
"""A receiver that asks for more is asked earlier."""
JITTER = 0.2
"""Of a wait, at most, added to it: receivers that come back are not called all at once."""
_AGAIN = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a receiver."""

    status: int
    retry_after: str = ""
    """Its header."""


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer came."""

    why: str
    is_final: bool = False
    """It may not be called at all."""


@dataclass(frozen=True, slots=True)
class Outcome:
    result: str
    """In words, for whoever looks after the webhook."""
    delivered: bool = False
    next_try: datetime | None = None
    """None: it is over."""


def outcome(
    attempt: Answer | Failure, *, attempts: int, since: datetime, now: datetime, jitter: float
) -> Outcome:
    """`attempts`: with this one. `since`: when the event happened. `jitter`: 0 to 1, drawn."""
    if isinstance(attempt, Answer):
        result = f"HTTP status {attempt.status}"
        if 200 <= attempt.status < 300:
            return Outcome(result, delivered=True)
        if 300 <= attempt.status < 400:
            return Outcome(f"{result}: redirects are not followed")
        again = attempt.status >= 500 or attempt.status in _AGAIN
        asked_s = _asked_s(attempt.retry_after, now)
    else:
        result, again, asked_s = attempt.why, not attempt.is_final, 0.0
    if not again:
        return Outcome(result)
    wait_s = min(FIRST_WAIT_S * 2 ** min(attempts - 1, 20), LONGEST_WAIT_S)
    wait_s = max(wait_s * (1 + JITTER * jitter), asked_s)
    at = now + timedelta(seconds=wait_s)
    if at - since > GIVEN_UP_AFTER:
        return Outcome(f"{result}; given up after {attempts} attempts")
    return Outcome(result, next_try=at)


def _asked_s(header: str, now: datetime) -> float:
    """`Retry-After`, in seconds or as a date; 0 for what is neither."""
    if header.strip().isdecimal():
        asked = float(header)
    else:
        try:
            asked = (parsedate_to_datetime(header) - now).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return min(max(asked, 0.0), LONGEST_RETRY_AFTER_S)
