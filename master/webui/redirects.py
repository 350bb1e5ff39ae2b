"""Where a browser may be sent after a login: to a page of this master. Nothing here does I/O."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

MAX_TARGET = 8192
"""Characters. Addresses of notebooks carry another address and a token."""
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
"""Browsers leave out control characters and blanks, and take a backslash for a slash."""


def own_path(target: str, origins: Collection[str]) -> str:
    """The path of `target`, with query and fragment, if it is of one of our `origins`; else nothing.

    A path of its own is of our origin: `/x`, but neither `//host` nor `x`.
    """
    if len(target) > MAX_TARGET or target.startswith("//") or _UNSAFE.search(target):
        return ""
    try:
        parts = urlsplit(target)
    except ValueError:
        return ""
    foreign = f"{parts.scheme}://{parts.netloc}".lower() not in origins
    if (parts.scheme or parts.netloc) and foreign:
        return ""
    path = parts._replace(scheme="", netloc="").geturl()
    return path if path.startswith("/") and not path.startswith("//") else ""
