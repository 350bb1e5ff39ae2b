"""Changing the metadata of something, key by key."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Add or change a key; VALUE may be JSON."),
]
RemoveOption = Annotated[
    list[str] | None, typer.Option("--remove", metavar="KEY", help="Remove a key.")
]


def changed(
    known: dict[str, Any], change: list[str] | None, remove: list[str] | None, *, what: str
) -> dict[str, Any]:
    """Raises InvalidArgument. `what` has the metadata."""
    new = dict(known)
    for key in remove or ():
        if key not in new:
            raise InvalidArgument(f"{what} has no metadata {key!r}")
        del new[key]
    for pair in change or ():
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InvalidArgument(f"--set {pair}: expected KEY=VALUE")
        new[key] = _value(value)
    return new


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
