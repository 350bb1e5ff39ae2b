"""What a message of an agent may hold: how many, how long, which times. Whoever has a join token may send anything.

What names something is refused when it is too long or has control characters: it goes to terminals, logs and headers.
Text for people is cut and escaped instead: nobody loses a connection for the words of an error.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, AwareDatetime, Field

MAX_SLOTS = 1024
MAX_SLOT_ID = 65_535
MAX_CONTAINERS = 2048
"""That an agent knows at a time, those included whose end the master has not committed yet."""
MAX_NOTES = 32
MAX_LABELS = 64
"""They are for people to read."""
MAX_BATCH_LINES = 1000
MAX_BATCH_BYTES = 256 * 1024
"""Of a log file that one message may carry: more than 1000 usual lines, and than one of the greatest length."""
MIN_RECORD_BYTES = 5
"""What a line takes in the log file besides its text: time, stream, two spaces and the newline."""
MAX_LINE_CHARS = 64 * 1024 + 64
"""A line of output, and the mark that says where it was cut."""
MAX_TEXT_CHARS = 800
MAX_ERROR_CHARS = 300
MAX_EPOCH = MAX_OFFSET = 2**62

FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
"""A machine without a battery for its clock begins here."""
LAST_MOMENT = datetime(2200, 1, 1, tzinfo=UTC)
"""Far enough from the ends of the calendar for every zone and every sum."""

# C0, DEL, C1, line separators, and what turns the direction of writing.
_CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_UNSHOWN = re.compile(f"[{_CONTROL}\ud800-\udfff]")


def one_line(text: str) -> str:
    """Text of somebody else as it can be shown: control characters escaped, cut to MAX_TEXT_CHARS."""
    shown = _UNSHOWN.sub(_escape, text[: MAX_TEXT_CHARS + 1])
    return shown if len(shown) <= MAX_TEXT_CHARS else shown[: MAX_TEXT_CHARS - 3] + "..."


def error_words(body: bytes) -> tuple[str, bool]:
    """What the body of an HTTP error says in one line, and whether a master wrote it, and not something before it."""
    text, of_master = body.decode(errors="replace"), False
    with suppress(ValueError, AttributeError, TypeError):
        found = json.loads(text)
        of_master = bool(found.get("message"))
        text = str(found.get("message") or found["error"]["error"])
    return one_line(text)[:MAX_ERROR_CHARS], of_master


def _escape(found: re.Match[str]) -> str:
    return " " if found[0] in "\n\t" else found[0].encode("unicode_escape").decode()


def _shown(name: str) -> str:
    if _UNSHOWN.search(name):
        raise ValueError("has control characters")
    return name


def _within_calendar(moment: datetime) -> datetime:
    if not FIRST_MOMENT <= moment <= LAST_MOMENT:
        raise ValueError(f"must lie between {FIRST_MOMENT.year} and {LAST_MOMENT.year}")
    return moment.astimezone(UTC)


Text: TypeAlias = Annotated[str, AfterValidator(one_line)]
"""For people: the words of an error, the reason of an end."""
Name: TypeAlias = Annotated[str, Field(max_length=256), AfterValidator(_shown)]
"""Of a machine, a device, a pool, a version."""
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_shown)]
Moment: TypeAlias = Annotated[AwareDatetime, AfterValidator(_within_calendar)]
"""In UTC, and not at the ends of the calendar, where comparing and converting fails."""
