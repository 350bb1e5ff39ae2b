"""Check the pages: the types of JavaScript with JSDoc, by TypeScript's compiler, and the format."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.webui_node import PACKAGES, ROOT, run_node

PROJECT = ROOT / "master/webui/tsconfig.json"
_COMPILER = PACKAGES / "typescript-native/bin/tsc"
_FORMATTER = PACKAGES / "prettier/bin/prettier.cjs"


def type_errors(project: Path = PROJECT) -> str:
    """Each with its file and line; empty if there is none."""
    done = run_node(_COMPILER, "--project", project, "--pretty", "false")
    return done.stdout or (f"tsc ended with {done.returncode}" if done.returncode else "")


def misformatted() -> str:
    done = run_node(_FORMATTER, "--check", "--log-level", "warn", "master/webui/static/js/**/*.js")
    return done.stdout if done.returncode else ""


if __name__ == "__main__":
    sys.exit(type_errors() + misformatted() or 0)
