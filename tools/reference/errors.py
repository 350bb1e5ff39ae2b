"""The page of errors: the tree, with the code of each and the HTTP status it is answered with."""

from __future__ import annotations

from collections.abc import Iterator

import master.app  # noqa: F401 - loads all of the master, whatever was imported before
from master.api.errors import STATUS_OF_CODE, status_of
from windlass.base.errors import WindlassError

INTRODUCTION = """\
What the master answers to a request that fails: `{"error": {"code", "reason", "error"}, "message"}`, where `code` and
`reason` are those of the published API, and `error` and `message` are one line for people. The message names the field,
the value and the way out."""


def errors_page() -> str:
    lines = ["# Errors", "", INTRODUCTION, ""]
    lines += ["| error | code | HTTP | reason | meaning |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*lines, *_rows(WindlassError, 0), ""])


def _rows(error: type[WindlassError], depth: int) -> Iterator[str]:
    indent = "&nbsp;&nbsp;" * depth
    status = status_of(error.__new__(error))
    meaning = (error.__doc__ or "").strip().partition("\n")[0]
    known = error is WindlassError or error.code in STATUS_OF_CODE
    http, reason = (str(status.http), status.reason) if known else ("", "")
    yield f"| {indent}`{error.__name__}` | `{error.code}` | {http} | {reason} | {meaning} |"
    for below in sorted(error.__subclasses__(), key=lambda e: e.__name__):
        if below.__module__.startswith(("windlass.base.errors", "master.")):
            yield from _rows(below, depth + 1)
