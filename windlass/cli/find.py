"""Finding one thing by what a user writes of it: its id or name, or the first characters."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from windlass.base.errors import Conflict, NotFound


def find(kind: str, word: str, known: Iterable[str], *, hint: str = "") -> str:
    """The one of `known` that is `word`, or the only one that begins so. Raises NotFound, Conflict.

    `hint`: where to see what there is.
    """
    names = sorted(known)
    wanted = word.lower()
    found = [name for name in names if name.lower() == wanted]
    found = found or [name for name in names if wanted and name.lower().startswith(wanted)]
    if len(found) > 1:
        raise Conflict(f"{len(found)} {kind} ids begin with '{word}': {', '.join(found)}")
    if not found:
        near = get_close_matches(word, names, cutoff=0.3)
        raise NotFound(kind, word, f"; nearest: {', '.join(near)}" if near else hint)
    return found[0]
