"""Sizes as people write them: "64MiB", "1.5g"."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_size(text: str) -> int | None:
    """Bytes of "64MiB", "64mb", "1.5g" or "1024": powers of 1024 in any spelling. None if it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    return int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])


def _validate(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if (size := parse_size(value)) is None:
        raise ValueError(f'"{value}" is not a size such as "64GiB"')
    return size


Size = Annotated[int, BeforeValidator(_validate), Field(gt=0)]
"""A pydantic field of bytes that accepts sizes, too."""
