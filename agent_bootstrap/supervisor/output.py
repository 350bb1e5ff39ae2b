"""A task's output on its way to the log: streams become lines, lines become frames of the file."""

from __future__ import annotations

MAX_LINE_BYTES = 8191
"""Longer lines are cut: what readers of task logs have always been given."""


class LineSplitter:
    """Turns chunks of one stream into framed lines. Lines end at \\n, \\r or \\r\\n."""

    def __init__(self, tag: bytes) -> None:
        self._tag = tag
        self._partial = b""
        self._skip_newline = False

    def feed(self, chunk: bytes, micros: int) -> bytes:
        if self._skip_newline and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._skip_newline = chunk[-1:] == b"\r"
        lines = (self._partial + chunk).splitlines()
        complete = chunk[-1:] in (b"\n", b"\r")
        self._partial = b"" if complete or not lines else lines.pop()
        if len(self._partial) > MAX_LINE_BYTES:
            *full, self._partial = cut(self._partial)
            lines += full
        return self._frame(lines, micros)

    def end(self, micros: int) -> bytes:
        """The last line, when it has no newline."""
        last, self._partial = self._partial, b""
        return self._frame([last] if last else [], micros)

    def _frame(self, lines: list[bytes], micros: int) -> bytes:
        if not lines:
            return b""
        if max(map(len, lines)) > MAX_LINE_BYTES:
            lines = [piece for line in lines for piece in cut(line)]
        prefix = b"%d %b " % (micros, self._tag)
        return prefix + (b"\n" + prefix).join(lines) + b"\n"


def cut(line: bytes) -> list[bytes]:
    return [line[i : i + MAX_LINE_BYTES] for i in range(0, len(line), MAX_LINE_BYTES)] or [b""]
