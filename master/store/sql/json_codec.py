"""How JSON columns are written: valid JSON on every database, and every float comes back as it was.

A diverged training reports NaN; PostgreSQL refuses the bare word, and most encoders make it null. Non-finite numbers
are written as `{"$float": "nan"}`; user data with such a key survives, written as "$$float".
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

_MARK = "$float"
_LIKE_MARK = re.compile(r"\$+float")
_compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def encode_json(value: Any) -> str:
    try:
        text = _compact(value)
    except ValueError:
        return _compact(_mark(value))
    return _compact(_mark(value)) if _MARK in text else text


def decode_json(text: str) -> Any:
    return json.loads(text, object_hook=_unmark) if _MARK in text else json.loads(text)


def _mark(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_MARK: repr(value)}
    if isinstance(value, dict):
        return {_escape(key): _mark(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mark(item) for item in value]
    return value


def _escape(key: Any) -> Any:
    return f"${key}" if isinstance(key, str) and _LIKE_MARK.fullmatch(key) else key


def _unmark(found: dict[str, Any]) -> Any:
    if _MARK in found:
        return float(found[_MARK])
    return {key[1:] if _LIKE_MARK.fullmatch(key) else key: found[key] for key in found}
