"""What models may be called, and what is written of one. Pure."""

from __future__ import annotations

import re

from master.core.names import check_name, plain_name
from windlass.base.errors import InvalidArgument

_ID = re.compile(r"[0-9]{1,9}")


def new_name(name: str) -> str:
    """In its one spelling, without blanks around it. Raises InvalidArgument for one that no URL could lead to."""
    name = plain_name(name).strip()
    if not name:
        raise InvalidArgument("name: must not be blank")
    if name.isdigit():
        raise InvalidArgument(f"name: {name[:80]!r} has only digits, and would be taken for an id")
    if "/" in name:
        raise InvalidArgument("name: must not contain a slash")
    if name in (".", ".."):
        raise InvalidArgument(f"name: {name!r} has a meaning of its own in addresses")
    if "  " in name:
        raise InvalidArgument("name: must not contain two blanks in a row")
    check_name(name, field="name")
    return name


def id_in(identifier: str) -> int | None:
    """A model is found by its id or by its name: digits are an id."""
    return int(identifier) if _ID.fullmatch(identifier) else None
