"""The inverse of reading a filter that people write: what its tree is written as."""

from __future__ import annotations

import re
from datetime import datetime
from typing import assert_never

from master.experiments.finding.columns import Table
from master.experiments.finding.filters import Condition, Group, Node, Not, Operator
from master.experiments.finding.language import SYMBOLS
from master.experiments.finding.sources import (
    HYPERPARAMETER,
    METADATA,
    Column,
    Hyperparameter,
    Metadata,
    Metric,
    Source,
    Space,
)
from master.experiments.finding.tokens import quoted
from master.experiments.finding.words import METRIC, WORDS

_PLAIN = re.compile(r"""[^\s()"',=!<>~]+""")
_KEYWORDS = ("and", "or", "not", "in", "none", "me")
_LIKE_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_WHOLE = 2**53
"""Up to here each whole number is a float of its own."""
_SYMBOL_OF = {operator: symbol for symbol, operator in SYMBOLS.items()}
_SYMBOL_OF |= {Operator.IS_EMPTY: "=", Operator.NOT_EMPTY: "!="}
_NAMES = {
    table: {word.column: name for name, word in words.items()} for table, words in WORDS.items()
}


def printed(node: Node, table: Table) -> str:
    """A text that is read as the same tree."""
    match node:
        case Condition():
            name = name_of(table, node.source)
            return f"{_text(name)} {_SYMBOL_OF[node.operator]} {_value(node)}"
        case Not(child):
            inner = printed(child, table)
            return f"not ({inner})" if isinstance(child, Group) else f"not {inner}"
        case Group(any_of, children):
            parts = [printed(child, table) for child in children]
            parts = [
                f"({part})" if isinstance(child, Group) else part
                for part, child in zip(parts, children, strict=True)
            ]
            return (" or " if any_of else " and ").join(parts)
        case _:
            assert_never(node)


def name_of(table: Table, source: Source) -> str:
    """The word that is read as this source."""
    match source:
        case Column(name):
            return _NAMES[table].get(name, name)
        case Space(path) | Hyperparameter(path):
            return HYPERPARAMETER + ".".join(path)
        case Metadata(path):
            return METADATA + ".".join(path)
        case Metric(group, name, statistic):
            return f"{METRIC}{group}.{name}.{statistic}"


def _value(condition: Condition) -> str:
    match condition.value:
        case None:
            return "none"
        case bool(value):
            return str(value).lower()
        case float() | int() as value:
            is_whole = value == int(value) and abs(value) < _WHOLE
            return str(int(value)) if is_whole else repr(float(value))
        case datetime() as value:
            return value.isoformat()
        case str(text):
            is_text = isinstance(condition.source, Column) or not _reads_otherwise(text)
            return _text(text) if is_text else quoted(text)


def _text(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _KEYWORDS
    return text if is_plain else quoted(text)


def _reads_otherwise(text: str) -> bool:
    return _LIKE_NUMBER.fullmatch(text) is not None or text.lower() in ("true", "false")
