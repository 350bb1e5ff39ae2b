"""The language of filters that people write, read into the tree of `filters`. Pure.

    filter     = all ("or" all)*
    all        = one (["and"] one)*
    one        = "not" one | "(" filter ")" | name operator value | name ["not"] "in" "(" value ("," value)* ")" | text
    operator   = "=" "!=" "<" "<=" ">" ">=", "~" contains, "!~" does not contain

A text alone is looked for in names. What holds where a value is missing is said in `filters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from master.experiments.finding import literals
from master.experiments.finding.columns import Table
from master.experiments.finding.filters import (
    ALLOWED,
    EMPTINESS,
    MAX_CONDITIONS,
    MAX_DEPTH,
    ORDERING,
    Condition,
    Group,
    Node,
    Not,
    Operator,
)
from master.experiments.finding.literals import STATE, Reader
from master.experiments.finding.sources import MAX_NAME_CHARS, Column, Source
from master.experiments.finding.tokens import (
    InvalidFilter,
    Token,
    TokenKind,
    tokens,
)
from master.experiments.finding.words import WORDS, source_of
from windlass.base.errors import InvalidArgument

MAX_CHARS = 20_000
SYMBOLS = {
    "=": Operator.EQUAL,
    "!=": Operator.UNEQUAL,
    "<": Operator.LESS,
    "<=": Operator.AT_MOST,
    ">": Operator.GREATER,
    ">=": Operator.AT_LEAST,
    "~": Operator.CONTAINS,
    "!~": Operator.NOT_CONTAINS,
}
_IF_NONE = {Operator.EQUAL: Operator.IS_EMPTY, Operator.UNEQUAL: Operator.NOT_EMPTY}
_EXAMPLE = "expected a condition such as state = RUNNING"


def parse(text: str, table: Table, reader: Reader) -> Node | None:
    """None for an empty text: everything. Raises InvalidFilter."""
    if len(text) > MAX_CHARS:
        raise InvalidFilter(
            f"it has {len(text)} characters, at most {MAX_CHARS} are read", MAX_CHARS, len(text)
        )
    if "\0" in text:
        at = text.index("\0")
        raise InvalidFilter("a NUL character is no part of a filter", at, at + 1)
    found = tokens(text)
    return _Parser(found, table, reader).whole() if len(found) > 1 else None


def mentions(node: Node | None, column: str) -> bool:
    """Whether it has a condition on this column."""
    match node:
        case None:
            return False
        case Condition(source):
            return isinstance(source, Column) and source.name == column
        case Not(child):
            return mentions(child, column)
        case Group(_, children):
            return any(mentions(child, column) for child in children)
        case _:
            assert_never(node)


@dataclass(frozen=True, slots=True)
class _Name:
    token: Token
    source: Source


class _Parser:
    def __init__(self, found: Sequence[Token], table: Table, reader: Reader) -> None:
        self._tokens = found
        self._table = table
        self._reader = reader
        self._at = 0
        self._conditions = 0

    def whole(self) -> Node:
        node = self._any(1)
        token = self._peek()
        if token.kind is not TokenKind.END:
            raise _problem(token, f"{token.text} closes nothing")
        return node

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _any(self, depth: int) -> Node:
        children = [self._all(depth)]
        while self._peek().is_keyword("or"):
            self._next()
            children.append(self._all(depth))
        return _group(children, any_of=True)

    def _all(self, depth: int) -> Node:
        children = [self._one(depth)]
        while True:
            token = self._peek()
            if token.kind in (TokenKind.END, TokenKind.CLOSE) or token.is_keyword("or"):
                return _group(children, any_of=False)
            if token.is_keyword("and"):
                self._next()
            children.append(self._one(depth))

    def _one(self, depth: int) -> Node:
        token = self._peek()
        if depth > MAX_DEPTH:
            raise _problem(token, f"more than {MAX_DEPTH} of ( and not, one in the other")
        if token.is_keyword("not"):
            self._next()
            return Not(self._one(depth + 1))
        if token.kind is not TokenKind.OPEN:
            return self._condition()
        self._next()
        node = self._any(depth + 1)
        close = self._next()
        if close.kind is not TokenKind.CLOSE:
            raise InvalidFilter("this ( is never closed", token.start, token.end)
        return node

    def _condition(self) -> Node:
        token = self._next()
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            what = token.text or "the filter ends here"
            raise _problem(
                token, f"{_EXAMPLE}, not {what}" if token.text else f"{what}: {_EXAMPLE}"
            )
        for keyword in ("and", "or", "in"):
            if token.is_keyword(keyword):
                raise _problem(token, f"{_EXAMPLE} before {keyword}")
        after = self._peek()
        if after.kind is TokenKind.OPERATOR:
            name = self._name(token)
            symbol = self._next()
            return self._compared(name, symbol, SYMBOLS[symbol.text])
        if after.is_keyword("in") and self._peek(1).kind is TokenKind.OPEN:
            return self._listed(self._name(token))
        if after.is_keyword("not") and self._peek(1).is_keyword("in"):
            self._next()
            return Not(self._listed(self._name(token)))
        return self._searched(token)

    def _searched(self, token: Token) -> Condition:
        """A text alone."""
        if token.kind is TokenKind.WORD and token.text.lower() in WORDS[self._table]:
            after = self._peek()
            raise _problem(after, f"expected {' '.join(SYMBOLS)} or in after {token.text}")
        self._count(token)
        source = source_of(self._table, "name")
        return Condition(source, Operator.CONTAINS, token.text)

    def _name(self, token: Token) -> _Name:
        if not token.text or len(token.text) > MAX_NAME_CHARS:
            raise _problem(token, f"a name has 1 to {MAX_NAME_CHARS} characters")
        try:
            return _Name(token, source_of(self._table, token.text))
        except InvalidArgument as error:
            raise _problem(token, error.message) from None

    def _listed(self, name: _Name) -> Node:
        """`in (...)`"""
        word = self._next()
        self._next()
        conditions: list[Node] = []
        while True:
            conditions.append(self._compared(name, word, Operator.EQUAL))
            after = self._next()
            if after.kind is TokenKind.CLOSE:
                return _group(conditions, any_of=True)
            if after.kind is not TokenKind.COMMA:
                raise _problem(after, "expected , or ) in the list")

    def _compared(self, name: _Name, symbol: Token, operator: Operator) -> Node:
        self._count(name.token)
        self._require_allowed(name, symbol, operator)
        token = self._next()
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise _problem(token, f"expected a value after {symbol.text}")
        if token.is_keyword("none"):
            if operator not in _IF_NONE:
                raise _problem(symbol, "none goes with = and != only")
            return Condition(name.source, _IF_NONE[operator])
        try:
            value = literals.value(name.source, operator, token, self._reader)
            if name.source == STATE and operator not in _IF_NONE:
                return self._state(name.token, literals.states_with(str(value)), operator)
        except InvalidFilter:
            raise
        except InvalidArgument as error:
            raise _problem(token, error.message) from None
        return Condition(name.source, operator, value)

    def _state(self, name: Token, words: Sequence[str], operator: Operator) -> Node:
        """`~` on states means those whose name has the text in it: a condition for each."""
        for _ in words[1:]:
            self._count(name)
        equal = [Condition(STATE, Operator.EQUAL, word) for word in words]
        node = _group(equal, any_of=True)
        return Not(node) if operator is Operator.NOT_CONTAINS else node

    def _require_allowed(self, name: _Name, symbol: Token, operator: Operator) -> None:
        if not isinstance(name.source, Column):
            return
        allowed = ALLOWED[name.source.kind] - EMPTINESS
        if name.source == STATE:
            allowed = allowed - ORDERING
        if operator not in allowed:
            known = " ".join(symbol for symbol, one in SYMBOLS.items() if one in allowed)
            raise _problem(
                symbol,
                f"{symbol.text} does not go with {name.token.text}, which is a "
                f"{name.source.kind}: use one of {known}",
            )

    def _count(self, token: Token) -> None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise _problem(token, f"more than {MAX_CONDITIONS} conditions")


def _group(children: Sequence[Node], *, any_of: bool) -> Node:
    return children[0] if len(children) == 1 else Group(any_of, tuple(children))


def _problem(token: Token, problem: str) -> InvalidFilter:
    return InvalidFilter(problem, token.start, token.end)
