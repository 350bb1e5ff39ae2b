"""Regular expressions of users, in RE2: the time of a match is linear in its line, whatever the expression.

Python's `re` takes for ever on some of them, and holds the interpreter meanwhile. What RE2 reads differently: `$` is
the end of the text only, and `\\d`, `\\w`, `\\s` and `\\b` mean ASCII (`\\pL` is any letter).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import re2

MAX_LENGTH = 1000
"""Characters of an expression."""
MAX_MEMORY = 1024 * 1024
"""Of a compiled expression, so also of the time that compiling and one step of a match take."""
_LACKS = (
    (re.compile(r"operator: \(\?<?[=!]"), "look-ahead and look-behind are"),
    (re.compile(r"sequence: \\[1-9]"), "back-references are"),
    (re.compile(r"operator: \(\?>|repetition operator: [*+?}]\+"), "atomic groups are"),
    (re.compile(r"operator: \(\?\("), "conditional groups are"),
    (re.compile(r"operator: \(\?#"), "comments are"),
    (re.compile(r"sequence: \\Z"), "\\Z is"),
    (re.compile(r"too large|repetition size"), "expressions that repeat so much are"),
)
"""What RE2 says -> what an expression uses that only other engines have."""


_OF_WHOLE = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-")
"""What means the whole text where lines stand together, too."""


class Pattern:
    """A compiled expression. Raises ValueError that says what is wrong, what is not supported, and what to do."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ValueError(f"it has {len(text)} characters; the maximum is {MAX_LENGTH}")
        try:
            compiled = _compile(text)
            self._search: Callable[[bytes], object] = compiled.search
            self._size: int = max(compiled.programsize, compiled.reverseprogramsize)
        except re2.error as error:
            raise ValueError(_problem(text, error.args[0].decode(errors="replace"))) from None
        except UnicodeEncodeError:
            raise ValueError("it contains half of a surrogate pair") from None
        self._search_lines: Callable[[bytes], object] | None = None
        if not _OF_WHOLE.search(text):
            with suppress(re2.error):  # too large with what is around it
                self._search_lines = _compile(f"(?m:{text})").search

    @property
    def size(self) -> int:
        """Of the compiled expression: how many steps one character may take."""
        return self._size

    def is_in(self, line: str) -> bool:
        """Whether it matches anywhere in the line."""
        return self._search(line.encode(errors="replace")) is not None

    def may_be_in(self, lines: bytes) -> bool:
        """False: it matches none of these, which stand together. Twenty times as fast as one by one."""
        return self._search_lines is None or self._search_lines(lines) is not None


def _compile(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    return re2.compile(text.encode(), options)


def _problem(text: str, said: str) -> str:
    if "(?P=" in text:
        said += " sequence: \\1"
    lacks = next((words for pattern, words in _LACKS if pattern.search(said)), None)
    if lacks is None:
        return said
    return f"{lacks} not supported: write a simpler one, in the syntax of RE2"
