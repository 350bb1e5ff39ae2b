"""Generated files of the pages: written, or compared with what lies there."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_compare(files: Mapping[Path, bytes], module: str) -> int:
    """With `--check` nothing is written, and files that differ are named. Returns an exit status."""
    differing = [
        path for path, content in files.items() if not path.exists() or path.read_bytes() != content
    ]
    if "--check" in sys.argv:
        for path in differing:
            print(f"{path} is not what `python -m {module}` writes: run it")
        return 1 if differing else 0
    for path in differing:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[path])
        print(f"wrote {path}")
    return 0
