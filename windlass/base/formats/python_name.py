"""How a configuration names the Python of a task."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}")


def python_name(value: str) -> str:
    """An absolute path of an interpreter or a virtualenv, a name to be looked up, or nothing. Raises ValueError."""
    if value.startswith("/"):
        if ".." in value.split("/") or not value.isprintable():
            raise ValueError(f"{value!r} is not a usable path of a Python")
        return value.rstrip("/") or "/"
    if value and _NAME.fullmatch(value) is None:
        raise ValueError(
            f"{value!r} is not a Python: write the absolute path of an interpreter or a virtualenv, or a name such as "
            "python3.12"
        )
    return value
