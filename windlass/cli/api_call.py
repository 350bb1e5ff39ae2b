"""`det api`: any call of the REST API, as the user who is logged in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.connect import client_for

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def call(ctx: typer.Context, method: str, path: str, body: str | None) -> None:
    """`body`: a file, or -."""
    verb = method.upper()
    if verb not in METHODS:
        raise InvalidArgument(f"METHOD must be one of {', '.join(METHODS)}, not {method!r}")
    if not path.startswith("/"):
        raise InvalidArgument(f"PATH must begin with /, not {path[:80]!r}")
    content = None if body is None else _body(body)
    with client_for(ctx).session.raw(verb, path, body=content) as pieces:
        last = b""
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            last = piece or last
    if last and not last.endswith(b"\n"):
        typer.echo("")


def _body(source: str) -> Any:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
        return json.loads(text)
    except OSError as error:
        raise InvalidArgument(f"--json {source}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidArgument(f"--json {source}: is not JSON: {error}") from None
