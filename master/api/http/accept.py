"""Who shows pages: browsers say so in the header Accept; programs ask for JSON or anything. Nothing here does I/O."""

from __future__ import annotations

from starlette.types import Scope


def asks_for_page(scope: Scope) -> bool:
    """Whether a browser would show the answer: a GET whose sender likes HTML better than JSON."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"]
    return prefers_html(",".join(lines))


def prefers_html(accept: str) -> bool:
    """By name: `*/*` is no wish for a page."""
    weights = dict(map(_weighted, accept.lower().split(",")))
    return weights.get("text/html", 0.0) > weights.get("application/json", 0.0)


def _weighted(part: str) -> tuple[str, float]:
    """A media type, and how much it is liked: from 0 to 1."""
    media, *parameters = (word.strip() for word in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return media, float(value)
            except ValueError:
                return media, 0.0
    return media, 1.0
