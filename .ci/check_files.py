"""Fail for files in the repository that do not belong there: binaries, and files over 500 KB that are not listed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LARGEST_BYTES = 500_000
ALLOWED: dict[str, str] = {}
"""Path -> why it may be large or binary."""


def problem(path: Path) -> str | None:
    content = path.read_bytes()
    if len(content) > LARGEST_BYTES:
        return f"has {len(content):,} bytes; the limit is {LARGEST_BYTES:,}"
    if b"\0" in content:
        return "is a binary file"
    return None


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True)
    paths = [Path(name) for name in listed.stdout.split("\0") if name and name not in ALLOWED]
    found = [(path, why) for path in paths if path.is_file() and (why := problem(path))]
    for path, why in found:
        print(f"{path} {why}: remove it, or list it with the reason in {sys.argv[0]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
