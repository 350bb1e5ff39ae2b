"""What is wrong with a configuration, each problem with the key that it is about and its line in the text. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
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
    problems = _problems(error)
    lines = _lines(text, {name for problem in problems for name in problem.names()})
    return [problem.at(lines) for problem in problems]


class _Problem(NamedTuple):
    path: str
    message: str

    def names(self) -> Iterator[str]:
        """The key, and what it is in: the nearest first."""
        name = self.path
        while name:
            yield name
            above = _LAST.sub("", name)
            name = above if above != name else ""

    def at(self, lines: Mapping[str, int]) -> LocatedProblem:
        if mark := _MARK.search(self.message):
            return LocatedProblem(*self, int(mark[1]))
        return LocatedProblem(*self, next((lines[x] for x in self.names() if x in lines), None))


def _problems(error: InvalidArgument) -> list[_Problem]:
    match error:
        case InvalidConfig(problems=problems):
            return [_split(problem) for problem in problems]
        case ConstraintBroken(path=where):
            return [_Problem(where, error.message)]
        case Unsatisfiable():
            return [_Problem(_SLOTS, error.message)]
        case _:
            return [_Problem("", error.message)]


def _split(problem: str) -> _Problem:
    """`<config>.a.b: what` as `a.b` and `what`."""
    where, colon, message = problem.partition(": ")
    if not colon or not where.startswith(ROOT):
        return _Problem("", problem)
    where = where.removeprefix(ROOT).removeprefix(".")
    if unknown := _UNKNOWN_KEY.match(message):
        where = f"{where}.{unknown[1]}".removeprefix(".")
    return _Problem(where, message)


def _lines(text: str, wanted: Collection[str]) -> dict[str, int]:
    """Of these names alone: those of all places of a large text would be much larger than it."""
    try:
        _, found = read_with_lines(text)
    except MalformedDocument:
        return {}
    longest = max(map(len, wanted), default=0)
    return {
        name: line
        for place, line in found.items()
        if sum(len(part) for part in place if isinstance(part, str)) <= longest
        and (name := path("", place).removeprefix(".")) in wanted
    }
