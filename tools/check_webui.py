"""Check the types of the pages: JavaScript with JSDoc, by TypeScript's compiler."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.webui_node import PACKAGES, ROOT, run_node

PROJECT = ROOT / "master/webui/tsconfig.json"
_COMPILER = PACKAGES / "typescript-native/bin/tsc"


def type_errors(project: Path = PROJECT) -> str:
    """Each with its file and line; empty if there is none."""
    done = run_node(_COMPILER, "--project", project, "--pretty", "false")
    return done.stdout or (f"tsc ended with {done.returncode}" if done.returncode else "")


if __name__ == "__main__":
    sys.exit(type_errors())
