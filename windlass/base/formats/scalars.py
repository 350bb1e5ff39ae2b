"""What a scalar of a YAML document is: the core types of YAML 1.2, with `yes` and `no` as users of PyYAML know them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import yaml

_YAML = "tag:yaml.org,2002:"
MERGE = f"{_YAML}merge"
_LONGEST_INT = 80
"""Digits, far above 64 bits in any base: Python reads no thousands of them, and a message should not show them."""
_OWN_TAGS = frozenset(f"{_YAML}{kind}" for kind in ("timestamp", "float", "int"))
"""Resolved here by other patterns, or not at all."""
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+|0o[0-7]+)\Z")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+"
    r"|\.[0-9]+(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))\Z|\.(?:nan|NaN|NAN)\Z"
)
_BOOLS = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}


_Patterns: TypeAlias = Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]


def _patterns() -> _Patterns:
    """The first character of a plain scalar ("" of an empty one) -> what it may be."""
    found = {
        first: [(tag, pattern) for tag, pattern in tags if tag not in _OWN_TAGS]
        for first, tags in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for tag, pattern, firsts in (("int", _INT, "-+0123456789"), ("float", _FLOAT, "-+.0123456789")):
        for first in firsts:
            found.setdefault(first, []).append((f"{_YAML}{tag}", pattern))
    return found


_PATTERNS = _patterns()


def tag_of(event: yaml.ScalarEvent) -> str:
    """The tag that is written before a scalar, or the one that its text has."""
    if event.tag is not None and event.tag != "!":
        return event.tag
    text = event.value
    if event.implicit[0]:  # neither quoted nor tagged
        for tag, pattern in _PATTERNS.get(text[:1], ()):
            if pattern.match(text):
                return tag
    return f"{_YAML}str"


def construct(tag: str, text: str) -> str | int | float | bool | None:
    """The value of a scalar with this tag. Raises ValueError with the reason."""
    reader = _READERS.get(tag.removeprefix(_YAML)) if tag.startswith(_YAML) else None
    if reader is None:
        raise ValueError(f"could not determine a constructor for the tag '{tag}'")
    return reader(text)


def _int(text: str) -> int:
    if len(text) > _LONGEST_INT:
        raise ValueError("the number does not fit 64 bits")
    if _INT.match(text) is None:
        raise ValueError("expected an integer")
    return int(text.replace("_", ""), 0)


def _float(text: str) -> float:
    if _FLOAT.match(text) is None and _INT.match(text) is None:
        raise ValueError("expected a number")
    if text[-3:].lower() in ("inf", "nan"):
        return float(text.replace(".", ""))
    return float(text)


def _bool(text: str) -> bool:
    try:
        return _BOOLS[text.lower()]
    except KeyError:
        raise ValueError("expected a boolean") from None


_READERS: Mapping[str, Callable[[str], str | int | float | bool | None]] = {
    "str": str,
    "null": lambda _: None,
    "bool": _bool,
    "int": _int,
    "float": _float,
}
