"""What workspaces and projects may be called, and the keys of projects. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import count

from windlass.base.errors import InvalidArgument

MAX_WORKSPACE_NAME = 53
MAX_PROJECT_NAME = 255
MAX_KEY = 5
_KEY = re.compile(r"[A-Z0-9]{1,5}")
_NOT_IN_KEYS = re.compile(r"[^A-Z0-9]")


def workspace_name(name: str) -> str:
    """Raises InvalidArgument."""
    return _name(name, MAX_WORKSPACE_NAME)


def project_name(name: str) -> str:
    """Raises InvalidArgument."""
    return _name(name, MAX_PROJECT_NAME)


def _name(name: str, longest: int) -> str:
    if not name.strip():
        raise InvalidArgument("name: must not be blank")
    if len(name) > longest:
        raise InvalidArgument(f"name: must have at most {longest} characters, but has {len(name)}")
    return name


def project_key(key: str) -> str:
    """As it is stored: in capitals. Raises InvalidArgument."""
    if not _KEY.fullmatch(plain := key.upper()):
        raise InvalidArgument(
            f"key: must be 1 to {MAX_KEY} letters A to Z and digits, but is {key[:80]!r}"
        )
    return plain


def key_from_name(name: str, taken: Collection[str]) -> str:
    """The first letters of the name, with a number if others have that."""
    letters = _NOT_IN_KEYS.sub("", name.upper()) or "P"
    if (plain := letters[:MAX_KEY]) not in taken:
        return plain
    return next(
        key
        for number in count(2)
        if (key := f"{letters[: MAX_KEY - len(str(number))]}{number}") not in taken
    )
