"""Our command line in the process of the test: a program of its own takes half a second to import."""

from __future__ import annotations

import os
from collections.abc import Mapping
from subprocess import CompletedProcess

from typer.testing import CliRunner

from windlass.cli.main import app


def run_here(
    words: tuple[str, ...], environ: Mapping[str, str], given: str = ""
) -> CompletedProcess[str]:
    """As a program with these variables and no others."""
    gone: dict[str, str | None] = dict.fromkeys(os.environ.keys() - environ.keys())
    done = CliRunner().invoke(app, list(words), input=given, env={**gone, **environ})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return CompletedProcess(words, done.exit_code, done.stdout, done.stderr)
