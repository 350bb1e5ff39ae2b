"""What is wrong with a configuration, each problem with the key that it is about and its line in the text. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from master.core.expconf.models.experiment import ROOT
from master.core.expconf.parsing.errors import path
from master.core.expconf.policies import ConstraintBroken
from windlass.base.errors import InvalidArgument, InvalidConfig, Unsatisfiable
from windlass.base.formats.documents import MalformedDocument, read_with_lines

_SLOTS = "resources.slots_per_trial"
_UNKNOWN_KEY = re.compile(r'^additionalProperties "(.*?)" not allowed')
_MARK = re.compile(r"\bat line (\d+)\b")
_LAST = re.compile(r"(\.[^.\[\]]+|\[\d+\])$")


class LocatedProblem(NamedTuple):
    path: str
    """Of the key, as `searcher.metric`; empty: the whole configuration."""
    message: str
    line: int | None
    """The first is 1. None: the text does not have the key: a template, a policy or a default gives it."""


def located(error: InvalidArgument, text: str) -> list[LocatedProblem]:
    """What a configuration was refused for. `text`: what its user wrote."""
    lines = _lines(text)
    return [_located(where, message, lines) for where, message in _problems(error)]


def _problems(error: InvalidArgument) -> list[tuple[str, str]]:
    match error:
        case InvalidConfig(problems=problems):
            return [_split(problem) for problem in problems]
        case ConstraintBroken(path=where):
            return [(where, error.message)]
        case Unsatisfiable():
            return [(_SLOTS, error.message)]
        case _:
            return [("", error.message)]


def _split(problem: str) -> tuple[str, str]:
    """`<config>.a.b: what` as `a.b` and `what`."""
    where, colon, message = problem.partition(": ")
    if not colon or not where.startswith(ROOT):
        return "", problem
    return where.removeprefix(ROOT).removeprefix("."), message


def _located(where: str, message: str, lines: Mapping[str, int]) -> LocatedProblem:
    if mark := _MARK.search(message):
        return LocatedProblem(where, message, int(mark[1]))
    unknown = _UNKNOWN_KEY.match(message)
    if unknown:
        where = f"{where}.{unknown[1]}".removeprefix(".")
    place = where
    while place and place not in lines:
        above = _LAST.sub("", place)
        place = above if above != place else ""
    return LocatedProblem(where, message, lines.get(place))


def _lines(text: str) -> dict[str, int]:
    try:
        _, found = read_with_lines(text)
    except MalformedDocument:
        return {}
    return {path("", place).removeprefix("."): line for place, line in found.items()}
