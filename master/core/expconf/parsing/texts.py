"""Texts that no configuration may hold: YAML and JSON can say more than file names, processes and databases take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from master.core.expconf.parsing.errors import path

Place = tuple[int | str, ...]
MAX_CHARS: Mapping[str, int] = {"name": 1_000, "description": 10_000}
"""Of what every list shows."""
MAX_LABEL_CHARS = 200


def text_problems(document: Mapping[str, Any], *, root: str) -> Iterator[str]:
    """One line for each text that cannot be stored or handed to a task, or that is too long."""
    for place, text in _texts(document, ()):
        if "\0" in text:
            yield f"{path(root, place)}: must not contain NUL characters"
        elif not _is_unicode(text):
            yield f"{path(root, place)}: must not contain halves of surrogate pairs"
        elif len(text) > (limit := _limit(place, text)):
            yield f"{path(root, place)}: has {len(text)} characters, more than {limit}"


def _texts(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not key.isprintable():
                yield place, key
            yield from _texts(item, (*place, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts(item, (*place, index))


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _limit(place: Place, text: str) -> int:
    if len(place) == 1:
        return MAX_CHARS.get(str(place[0]), len(text))
    is_label = len(place) == 2 and place[0] == "labels"
    return MAX_LABEL_CHARS if is_label else len(text)
