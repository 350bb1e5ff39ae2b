"""Errors of the agent's commands: a line each for people, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from windlass.base.errors import InvalidArgument, InvalidConfig, WindlassError


@contextmanager
def told_errors(
    usage: tuple[type[WindlassError], ...] = (InvalidConfig, InvalidArgument),
) -> Iterator[None]:
    """Exit code 2 for `usage`, what was given wrong; 1 for all others."""
    try:
        yield
    except (WindlassError, OSError) as error:
        for text in _texts(error):
            typer.echo(f"error: {text}", err=True)
        raise typer.Exit(2 if isinstance(error, usage) else 1) from None


def _texts(error: WindlassError | OSError) -> list[str]:
    if isinstance(error, InvalidConfig):
        return list(error.problems)
    if isinstance(error, WindlassError):
        return [error.message]
    return [f"{error.filename}: {error.strerror}" if error.filename else str(error)]
