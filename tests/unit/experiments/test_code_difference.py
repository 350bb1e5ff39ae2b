"""Differences of files: what git's `patch` would make the one of the other, within bounds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from master.experiments.code_difference import (
    MAX_BYTES,
    MAX_FILES,
    MAX_LINES,
    FileChange,
    FilesDifference,
    archives_difference,
)
from master.store.contexts import ContextFile, pack

OLD = {
    "train.py": "import a\n\nlr = 1\nend\n",
    "gone.py": "x = 1\n",
    "same.py": "same\n",
    "sub/no_end": "last",
    "naïve \u2028 name": "one\u2028line\x0b\n",
}
NEW = {
    "train.py": "import a\n\nlr = 2\nend\n",
    "new.py": "y = 2\n",
    "same.py": "same\n",
    "sub/no_end": "last\n",
    "naïve \u2028 name": "one\u2028line\x0b!\n",
}


def packed(files: dict[str, str] | dict[str, bytes]) -> bytes:
    return pack(
        [
            ContextFile(path=path, content=held if isinstance(held, bytes) else held.encode())
            for path, held in files.items()
        ]
    )


def difference(old: dict[str, bytes], new: dict[str, bytes]) -> FilesDifference:
    return archives_difference(packed(old), packed(new))


def test_files_that_differ_are_named_with_their_lines() -> None:
    found = archives_difference(packed(OLD), packed(NEW))
    changes = {file.path: file.change for file in found.files}
    assert changes == {
        "train.py": FileChange.CHANGED,
        "gone.py": FileChange.REMOVED,
        "new.py": FileChange.ADDED,
        "sub/no_end": FileChange.CHANGED,
        "naïve \u2028 name": FileChange.CHANGED,
    }
    assert (found.differing, found.same) == (5, 1)
    lines = {file.path: file.diff.split("\n") for file in found.files}
    assert lines["train.py"][3:7] == [" import a", " ", "-lr = 1", "+lr = 2"]
    assert "\\ No newline at end of file" in lines["sub/no_end"]


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
def test_a_diff_applies(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OLD["train.py"])
    found = archives_difference(packed(OLD), packed(NEW))
    (one,) = [file for file in found.files if file.path == "train.py"]
    subprocess.run(["patch", "-p1"], input=one.diff, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "train.py").read_text() == NEW["train.py"]


def test_what_cannot_be_compared_is_named_with_the_reason() -> None:
    large = b"x" * (MAX_BYTES + 1)
    old = {"bytes": b"\xff\x00", "large": large, "long": b"1\n" * (MAX_LINES + 1), "same": large}
    new = {"bytes": b"\xfe\x00", "large": large + b"y", "long": b"2\n", "same": large}
    found = difference(old, new)
    why = {file.path: file.why_not for file in found.files}
    assert why == {
        "bytes": "not text",
        "large": "larger than 256 KiB",
        "long": f"more than {MAX_LINES} lines",
    }
    assert not any(file.diff for file in found.files)


def test_many_files_are_counted_and_not_all_listed() -> None:
    many = {f"{number:04}": b"line\n" * 60 for number in range(MAX_FILES + 10)}
    found = difference(many, {})
    assert (len(found.files), found.differing) == (MAX_FILES, MAX_FILES + 10)
    assert found.files[0].diff
    assert found.files[-1].why_not.startswith("more than 20000 lines in all")


def test_nothing_differs_from_nothing() -> None:
    assert archives_difference(b"", b"") == FilesDifference()
