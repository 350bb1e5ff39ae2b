"""Fail for files in the repository that do not belong there: binaries, empty ones, and those over 500 KB not listed.

Also for words of product and docs that were replaced by those of the field.

pytest imports the modules of tests by their names alone: two of one name cannot run together.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

LARGEST_BYTES = 500_000
ALLOWED: dict[str, str] = {
    "master/webui/static/js/openapi.d.ts": "generated: the types of the whole REST API",
}
"""Path -> why it may be large or binary."""
REPLACED = {
    r"_?[Pp]urses?": "budget",
    r"class Cart": "purchase list",
    r"class Draft|_?draft": "builder",
    r"(?<![Pp]rice )[Bb]ooks|JobBook": "accounts, recorder",
    r"_?tally|Tally|_?tallies": "counters, sum",
    r"\w*[Ss]trangers?|\w*STRANGERS?": "unauthenticated, unknown, foreign",
    r"far_ends?|MasterWays|ways_of": "relay, transports",
    r"class (?:Said|Told|Asked|Looked|Telling)": "result, request, listing, report",
    r"class (?:Alone|Desk|Leg|Standing)": "timer, server, job, status",
    r"_?homeless": "unplaced",
    r"StrangeJobs": "foreign jobs",
    r"\w+Wishes": "requirements",
    r"The doubles|FarEnd|stop_worth|move_worth|[Uu]nserved": "fake, peer, saving, unmet",
}
"""A word of names and texts that does not come back -> the field's."""
NOT_CHECKED = re.compile(r"tests/|benchmarks/|\.ci/|CHANGELOG\.md|(?!.*\.(?:py|md)$)")


def problem(path: Path) -> str | None:
    content = path.read_bytes()
    if not content and path.name != "py.typed":
        return "is empty"
    if len(content) > LARGEST_BYTES:
        return f"has {len(content):,} bytes; the limit is {LARGEST_BYTES:,}"
    if b"\0" in content:
        return "is a binary file"
    return None


def replaced_words(path: Path) -> Iterator[tuple[str, str]]:
    """Where, and what to do."""
    if NOT_CHECKED.match(path.as_posix()):
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for pattern, instead in REPLACED.items():
            if found := re.search(rf"\b(?:{pattern})\b", line):
                yield f"{path}:{number}", f'says "{found[0]}": the word is now {instead}'


def same_names_of_tests(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    first: dict[str, Path] = {}
    for path in paths:
        if path.match("test_*.py"):
            other = first.setdefault(path.stem, path)
            if other is not path:
                yield path, f"has the name of {other}"


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True)
    paths = [Path(name) for name in listed.stdout.split("\0") if name and name not in ALLOWED]
    paths = [path for path in paths if path.is_file()]
    misplaced = [(path, why) for path in paths if (why := problem(path))]
    for path, why in misplaced:
        print(f"{path} {why}: remove it, or list it with the reason in {sys.argv[0]}")
    doubled = list(same_names_of_tests(paths))
    for path, why in doubled:
        print(f"{path} {why}: rename one of them")
    words = [each for path in paths for each in replaced_words(path)]
    for where, why in words:
        print(f"{where} {why}")
    return 1 if misplaced or doubled or words else 0


if __name__ == "__main__":
    sys.exit(main())
