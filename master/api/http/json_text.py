"""JSON of request bodies. Parsers hold the interpreter from its first byte to its last: so many values, not more."""

from __future__ import annotations

import re
from typing import Any

import orjson
from fastapi import HTTPException

MAX_VALUES = 500_000
"""Of one body: a fifth of a second. Text and files count as one, whatever their length."""
_MAX_SEARCHED_BYTES = 16 * 1024 * 1024
"""Above this a body is mostly files, in base64, which has none of the characters that are counted."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def loads(body: bytes) -> Any:
    """Raises ValueError for what is no JSON, HTTPException for too much of it."""
    check_values(body)
    return orjson.loads(body)


def check_values(body: bytes) -> None:
    """Raises HTTPException for a body of too many values."""
    if len(body) <= MAX_VALUES or _values(body) <= MAX_VALUES:
        return
    if len(body) <= _MAX_SEARCHED_BYTES and _values(_STRING.sub(b"", body)) <= MAX_VALUES:
        return
    raise HTTPException(413, f"the body has more than {MAX_VALUES} JSON values: send less at once")


def _values(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
