"""The words of a filter that people write, each with its place in the text. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from windlass.base.errors import InvalidArgument


class TokenKind(StrEnum):
    WORD = "word"
    QUOTED = "quoted text"
    OPERATOR = "operator"
    OPEN = "("
    CLOSE = ")"
    COMMA = ","
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    """Of a quoted text what is inside of its quotes."""
    start: int
    end: int

    def is_keyword(self, word: str) -> bool:
        return self.kind is TokenKind.WORD and self.text.lower() == word


class InvalidFilter(InvalidArgument):
    """What is wrong at `start` to `end` of the text, in characters from 0."""

    def __init__(self, problem: str, start: int, end: int) -> None:
        super().__init__(f"filter: at character {start + 1}: {problem}")
        self.problem = problem
        self.start = start
        self.end = end


_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<operator>!=|<=|>=|!~|=|<|>|~)
    | (?P<quoted>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
    | (?P<open>\()
    | (?P<close>\))
    | (?P<comma>,)
    | (?P<word>[^\s()"',=!<>~]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def tokens(text: str) -> list[Token]:
    """Ends with a token of kind END. Raises InvalidFilter."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        kind = match.lastgroup or ""
        if kind == "quoted":
            inside = _ESCAPED.sub(r"\1", match[0][1:-1])
            found.append(Token(TokenKind.QUOTED, inside, at, match.end()))
        elif kind != "space":
            found.append(Token(TokenKind[kind.upper()], match[0], at, match.end()))
        at = match.end()
    return [*found, Token(TokenKind.END, "", len(text), len(text))]


def _unreadable(text: str, at: int) -> InvalidFilter:
    if text[at] in "\"'":
        return InvalidFilter(f"the text that begins here has no closing {text[at]}", at, len(text))
    return InvalidFilter("! alone means nothing: write != or !~, or not", at, at + 1)


def quoted(text: str) -> str:
    """As it would be written in a filter."""
    inside = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inside}"'
