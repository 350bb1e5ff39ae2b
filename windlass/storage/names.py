"""Names of files that are not UTF-8, as text that everything takes: JSON, zip archives, the database."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from windlass.base.errors import StorageError

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""What Python makes of such bytes of a name (PEP 383)."""


def utf8(text: str) -> str:
    """Each byte that is no part of UTF-8 becomes `%` and two digits: `%FF`. Other text stays as it is."""
    return _NOT_UTF8.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", text)


def require_distinct(names: Iterable[str]) -> None:
    """Raises StorageError if two names would be one in a zip archive."""
    twice = [name for name, count in Counter(map(utf8, names)).items() if count > 1]
    if twice:
        raise StorageError(
            f"two files would both be {twice[0]} in a zip archive, which takes no names that are not UTF-8: "
            "rename one of them, or take a tar archive"
        )
