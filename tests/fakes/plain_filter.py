"""The language of filters evaluated on plain Python values: what SQL is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from master.experiments.finding.columns import Kind
from master.experiments.finding.filters import (
    POSITIVE,
    Condition,
    Filter,
    Node,
    Not,
    Operator,
    Value,
)
from master.experiments.finding.live_states import LIVE
from master.experiments.finding.sorts import Sort
from master.experiments.finding.sources import Column, Hyperparameter, Metadata, Metric, Space
from master.experiments.reports.metrics import summary_key

_COMPARE: Mapping[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: lambda a, b: bool(a == b),
    Operator.LESS: lambda a, b: bool(a < b),
    Operator.AT_MOST: lambda a, b: bool(a <= b),
    Operator.GREATER: lambda a, b: bool(a > b),
    Operator.AT_LEAST: lambda a, b: bool(a >= b),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One experiment or run."""

    id: int
    columns: Mapping[str, Any]
    archived: bool
    config: Mapping[str, Any]
    hparams: Mapping[str, Any]
    metadata: Mapping[str, Any] | None
    summary: Mapping[str, Any]
    live: str | None = None
    """What it does, if it is active."""


def matches(subject: Subject, wanted: Filter) -> bool:
    if subject.archived and not wanted.show_archived:
        return False
    return wanted.root is None or _node(subject, wanted.root)


def sorted_ids(subjects: list[Subject], sorts: tuple[Sort, ...]) -> list[int]:
    ordered = sorted(subjects, key=lambda s: s.id)
    for sort in reversed(sorts):
        # Each sort is stable, so that the last ones only order what the first ones leave equal.
        for key in reversed(_sort_keys(sort)):
            have = [s for s in ordered if key(s) is not None]
            have.sort(key=key, reverse=sort.descending)  # stable, even if reversed
            ordered = have + [s for s in ordered if key(s) is None]
    return [s.id for s in ordered]


def _sort_keys(sort: Sort) -> list[Callable[[Subject], Any]]:
    source = sort.source
    if isinstance(source, Column):
        name = source.name
        if name == "state":
            return [lambda s: s.columns[name], lambda s: s.live and LIVE.index(s.live)]
        return [lambda s: s.columns[name]]

    def of(kind: type | tuple[type, ...]) -> Callable[[Subject], Any]:
        def key(subject: Subject) -> Any:
            value = _value(subject, source)
            return value if isinstance(value, kind) and not isinstance(value, bool) else None

        return key

    return [of((int, float)), of(str)]


def _value(subject: Subject, source: Any) -> Any:
    match source:
        case Space(path):
            return _at(subject.config, ("hyperparameters", *path, "val"))
        case Hyperparameter(path):
            return _at(subject.hparams, path)
        case Metadata(path):
            return _at(subject.metadata, path)
        case Metric(group, name, statistic):
            return _at(subject.summary, (summary_key(group), name, statistic))
    raise AssertionError(source)


def _at(document: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _node(subject: Subject, node: Node) -> bool:
    if isinstance(node, Not):
        return not _node(subject, node.child)
    if not isinstance(node, Condition):
        results = [_node(subject, child) for child in node.children]
        return any(results) if node.any_of else all(results)
    positive = POSITIVE.get(node.operator)
    if positive is not None:
        return not _holds(subject, node.source, positive, node.value)
    return _holds(subject, node.source, node.operator, node.value)


def _holds(subject: Subject, source: Any, operator: Operator, value: Value | None) -> bool:
    if isinstance(source, Column):
        if source.name == "state" and operator is Operator.EQUAL and value in LIVE:
            return bool(subject.live == value)
        return _column(source.kind, subject.columns[source.name], operator, value)
    if isinstance(source, Space):
        return _space(_at(subject.config, ("hyperparameters", *source.path)), operator, value)
    return _free(_value(subject, source), operator, value)


def _column(kind: Kind, have: Any, operator: Operator, value: Value | None) -> bool:
    if operator is Operator.IS_EMPTY:
        return have in (None, "", [])
    if have is None or value is None:
        return False
    if kind is Kind.TAGS:
        return any(_text(label, operator, str(value)) for label in have)
    if kind is Kind.TEXT:
        return _text(have, operator, str(value))
    return _COMPARE[operator](have, value)


def _text(have: str, operator: Operator, value: str) -> bool:
    if operator is Operator.CONTAINS:
        return _ascii_lower(value) in _ascii_lower(have)
    return _COMPARE[operator](have, value)


def _ascii_lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


def _free(have: Any, operator: Operator, value: Value | None) -> bool:
    if operator is Operator.IS_EMPTY:
        return have is None or have == "" or have == []
    items = [have, *(have if isinstance(have, list) else [])]
    return any(_one(item, operator, value) for item in items)


def _one(have: Any, operator: Operator, value: Any) -> bool:
    numbers = (int, float)
    if isinstance(have, bool) or isinstance(value, bool):
        alike = isinstance(have, bool) and isinstance(value, bool)
    elif isinstance(have, numbers):
        alike = isinstance(value, numbers)
    else:
        alike = isinstance(have, str) and isinstance(value, str)
    if not alike:
        return False
    if operator is Operator.CONTAINS:
        return str(value) in have if isinstance(have, str) else bool(have == value)
    return _COMPARE[operator](have, value)


def _space(space: Any, operator: Operator, value: Any) -> bool:
    kind = space.get("type") if isinstance(space, Mapping) else None
    if operator is Operator.IS_EMPTY:
        return space is None or (kind == "const" and _free(space.get("val"), operator, None))
    if kind == "const":
        return _free(space.get("val"), operator, value)
    if kind == "categorical":
        vals = space["vals"]
        return operator is Operator.CONTAINS and any(_one(v, Operator.EQUAL, value) for v in vals)
    if kind in ("int", "double", "log") and not isinstance(value, str | bool | datetime):
        low, high = space["minval"], space["maxval"]
        if operator is Operator.CONTAINS:
            return bool(low <= value <= high)
        return _COMPARE[operator](low, value) or _COMPARE[operator](high, value)
    return False
