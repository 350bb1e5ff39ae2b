"""Names that users give to things which are found by them: one spelling each, and every one fits into a URL."""

from __future__ import annotations

import unicodedata

from windlass.base.errors import InvalidArgument

MAX_NAME = 1_000
"""Characters."""
MAX_NAME_BYTES = 2_000
"""In UTF-8: what an index of PostgreSQL holds."""


def plain_name(name: str) -> str:
    """One spelling of letters with accents, which keyboards compose in two ways."""
    return unicodedata.normalize("NFC", name)


def check_name(name: str, *, field: str) -> None:
    """Raises InvalidArgument for one that is too long, or that looks like another."""
    if len(name) > MAX_NAME:
        raise InvalidArgument(f"{field}: has {len(name)} characters, more than {MAX_NAME}")
    if not name.isprintable():
        raise InvalidArgument(f"{field}: must not contain characters that cannot be seen")
    if (size := len(name.encode())) > MAX_NAME_BYTES:
        raise InvalidArgument(f"{field}: has {size} bytes in UTF-8, more than {MAX_NAME_BYTES}")
