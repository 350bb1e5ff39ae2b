"""What somebody else wrote is text for a terminal, never orders to it.

A log line or a name may hold sequences that move the cursor, hide text, write the clipboard or answer as the user. On a
terminal control characters are shown escaped, as `ls` and `git` do; a file or a program is given the bytes as they are.
"""

from __future__ import annotations

import re
import sys
from typing import TextIO

_ORDERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    # Directions of writing: text that reads differently from what it is.
    "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]"
)
"""Control characters but tabs and newlines."""


def escaped(text: str) -> str:
    """With each control character as `\\x1b` or `\\u202e`."""
    return _ORDERS.sub(_escape, text)


def for_terminal(text: str, stream: TextIO | None = None) -> str:
    """Escaped if `stream`, standard output unless given, is a terminal."""
    return escaped(text) if (stream or sys.stdout).isatty() else text


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
