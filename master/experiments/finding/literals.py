"""Values of a filter that people write: numbers, texts, times and ages, states, `me`. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from master.experiments.finding.columns import Kind
from master.experiments.finding.filters import ORDERING, Operator, Value
from master.experiments.finding.live_states import LIVE
from master.experiments.finding.sources import Column, Source
from master.experiments.finding.tokens import Token, TokenKind, quoted
from master.experiments.finding.words import nearest
from master.experiments.lifecycle.state import Phase
from windlass.base.errors import InvalidArgument
from windlass.base.formats.durations import parse_duration

STATE = Column("state", Kind.TEXT)
STATES = (*LIVE, *Phase)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Who asks, and when: what `me` and ages mean."""

    username: str
    now: datetime


def value(source: Source, operator: Operator, token: Token, reader: Reader) -> Value:
    """Raises InvalidArgument."""
    if not isinstance(source, Column):
        return _free(operator, token)
    text = token.text
    match source.kind:
        case Kind.NUMBER:
            return _number(source, text)
        case Kind.DATE:
            return _time(text, reader.now)
        case Kind.BOOLEAN:
            if text.lower() not in _BOOLEANS:
                raise InvalidArgument(f"{_short(text)} is neither true nor false")
            return _BOOLEANS[text.lower()]
        case _ if source == STATE and operator in (Operator.EQUAL, Operator.UNEQUAL):
            return _state(text)
        case _ if source.name == "user" and token.is_keyword("me"):
            return reader.username
        case _:
            return text


def states_with(part: str) -> list[str]:
    """States with a text in their names. Raises InvalidArgument if there are none."""
    found = [word for word in STATES if part.upper() in word]
    if not found:
        raise InvalidArgument(f"no state has {_short(part)} in its name: {', '.join(STATES)}")
    return found


def _free(operator: Operator, token: Token) -> Value:
    """Of what may be anything: quotes make it a text."""
    if token.kind is TokenKind.QUOTED:
        return token.text
    number = _finite(token.text)
    if number is not None:
        return number
    small = token.text.lower()
    if small in _BOOLEANS and operator in ORDERING:
        raise InvalidArgument("true and false have no order: use = or !=")
    return _BOOLEANS.get(small, token.text)


def _finite(text: str) -> float | None:
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def _number(source: Column, text: str) -> float:
    number = _finite(text)
    if number is not None:
        return number
    if source.name != "duration":
        raise InvalidArgument(f"{_short(text)} is no number")
    return _duration(text, "such as 90m, 36h or 2d, or a number of seconds").total_seconds()


def _time(text: str, now: datetime) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    wanted = "expected a time in UTC such as 2026-01-31 or 2026-01-31T12:00, or an age such as 2d"
    try:
        return now - _duration(text, wanted)
    except OverflowError:
        raise InvalidArgument(f"{_short(text)} is too long ago") from None


def _duration(text: str, wanted: str) -> timedelta:
    try:
        duration = parse_duration(text)
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{_short(text)} is not understood: {wanted}") from None
    if duration < timedelta(0):
        raise InvalidArgument(f"{_short(text)} is negative: {wanted}")
    return duration


def _state(text: str) -> str:
    word = text.upper().removeprefix("STATE_")
    if word in STATES:
        return word
    near = nearest(word, [state.lower() for state in STATES], cutoff=0.6).upper()
    hint = f"did you mean {near}?" if near else f"use one of {', '.join(STATES)}"
    raise InvalidArgument(f"there is no state {_short(text)}: {hint}")


def _short(text: str) -> str:
    return quoted(text[:80])
