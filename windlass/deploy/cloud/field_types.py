"""Types of single options: what is accepted, and what is said about the rest."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from windlass.base.formats.duration_field import Duration

CLUSTER_ID = re.compile(r"[a-zA-Z][-a-zA-Z0-9]*")
EVERYBODY = "0.0.0.0/0"
_PRICE = re.compile(r"\d+\.?\d*|\.\d+")


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence that refuses `name`."""
    known = sorted(names)
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f'did you mean "{near[0]}"?' if near else f"use one of {', '.join(known)}"


def one_of(kind: str, names: Iterable[str]) -> AfterValidator:
    known = frozenset(names)

    def checked(value: str) -> str:
        if value not in known:
            raise ValueError(f'"{value}" is no {kind}: {nearest(value, known)}')
        return value

    return AfterValidator(checked)


def shaped(pattern: str, what: str) -> AfterValidator:
    """Empty, or as the pattern says."""
    shape = re.compile(pattern)

    def checked(value: str) -> str:
        if value and not shape.fullmatch(value):
            raise ValueError(f'"{value}" is not {what}')
        return value

    return AfterValidator(checked)


def once(kind: str) -> AfterValidator:
    """Each item once."""

    def checked(items: tuple[str, ...]) -> tuple[str, ...]:
        for item in items:
            if items.count(item) > 1:
                raise ValueError(f'{kind} "{item}" is given twice')
        return items

    return AfterValidator(checked)


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be longer than 0s")
    return value


def _cidr(value: str) -> str:
    try:
        return str(ipaddress.IPv4Network(value))
    except ValueError:
        pass
    try:
        meant = str(ipaddress.IPv4Network(value, strict=False))
    except ValueError:
        raise ValueError(
            f'"{value}" is not a range of IPv4 addresses such as 203.0.113.0/24'
        ) from None
    raise ValueError(f'"{value}" has bits set after its prefix: did you mean "{meant}"?')


def _price(value: str) -> str:
    if value and not _PRICE.fullmatch(value):
        raise ValueError(f'"{value}" is no price: write USD per hour, such as 1.25')
    return value


def pairs(kind: str, check: Callable[[str, str], str]) -> AfterValidator:
    """KEY=VALUE, each key once. `check` returns what is wrong with one, or nothing."""

    def checked(items: tuple[str, ...]) -> tuple[str, ...]:
        seen: set[str] = set()
        for item in items:
            key, equals, value = item.partition("=")
            if not equals or not key:
                raise ValueError(f'"{item}" is no {kind}: write KEY=VALUE')
            if key in seen:
                raise ValueError(f'"{key}" is given twice')
            seen.add(key)
            if wrong := check(key, value):
                raise ValueError(f'"{item}": {wrong}')
        return items

    return AfterValidator(checked)


def as_mapping(items: Iterable[str]) -> dict[str, str]:
    """Of checked pairs."""
    return dict(item.split("=", 1) for item in items)


Period: TypeAlias = Annotated[Duration, AfterValidator(_positive)]
Cidr: TypeAlias = Annotated[str, AfterValidator(_cidr)]
Price: TypeAlias = Annotated[str, AfterValidator(_price)]
Port: TypeAlias = Annotated[int, Field(ge=1, le=65535)]
Count: TypeAlias = Annotated[int, Field(ge=0)]
