"""Packing a model directory."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from windlass.base.errors import InvalidArgument
from windlass.sdk import context_dir
from windlass.sdk.context_dir import pack_directory


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def test_parents_come_before_children_and_files_after_directories(tmp_path: Path) -> None:
    tree(tmp_path, "z.py", "a/b/c.py", "a/x.py")
    paths = [file.path for file in pack_directory(tmp_path).files]
    assert paths == ["a", "z.py", "a/b", "a/x.py", "a/b/c.py"]


def test_the_wire_form(tmp_path: Path) -> None:
    tree(tmp_path, "d/f.py")
    (tmp_path / "d" / "f.py").chmod(0o755)
    directory, file = (entry.to_json() for entry in pack_directory(tmp_path).files)
    assert (directory["path"], directory["type"], directory["content"]) == ("d", 53, "")
    assert (file["path"], file["type"], file["mode"]) == ("d/f.py", 48, 0o100755)
    assert base64.b64decode(file["content"]) == b"d/f.py"
    assert (file["uid"], file["gid"]) == (0, 0)
    assert file["mtime"].isdigit()


def test_what_is_ignored(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "a.pyc", "__pycache__/x", ".git/config", "data/big", "keep/data/y")
    (tmp_path / ".detignore").write_text("/data/\n")
    packed = pack_directory(tmp_path)
    assert [f.path for f in packed.files] == ["keep", "a.py", "keep/data", "keep/data/y"]
    assert packed.notices == []


def test_gitignore_serves_when_there_is_no_detignore_and_says_so(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "data/big", ".git/config")
    (tmp_path / ".gitignore").write_text("data/\n")
    packed = pack_directory(tmp_path)
    assert [f.path for f in packed.files] == [".gitignore", "a.py"]
    assert len(packed.notices) == 1
    assert packed.notices[0].startswith("1 files and directories are not uploaded")


def test_links(tmp_path: Path) -> None:
    outside = tree(tmp_path / "outside", "f", "d/g")
    model = tree(tmp_path / "model", "a.py")
    (model / "file").symlink_to(outside / "f")
    (model / "dir").symlink_to(outside / "d")
    (model / "broken").symlink_to(outside / "nothing")
    (model / "loop").symlink_to(model)
    packed = pack_directory(model)
    assert [f.path for f in packed.files] == ["dir", "loop", "a.py", "file"]
    assert packed.files[-1].content == b"f"
    assert len(packed.notices) == 1
    assert packed.notices[0].startswith("broken is not uploaded")


def test_includes(tmp_path: Path) -> None:
    model = tree(tmp_path / "model", "a.py")
    lib = tree(tmp_path / "lib", "x.py", "y.pyc")
    paths = [f.path for f in pack_directory(model, [lib, lib / "x.py"]).files]
    assert paths == ["a.py", "lib", "lib/x.py", "x.py"]
    with pytest.raises(InvalidArgument, match="already"):
        pack_directory(model, [tree(tmp_path / "other", "a.py") / "a.py"])


def test_too_large_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context_dir, "MAX_BYTES", 10)
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert pack_directory(tmp_path).total_bytes == 10
    (tmp_path / "b").write_bytes(b"x")
    with pytest.raises(InvalidArgument, match=r"\.detignore"):
        pack_directory(tmp_path)


def test_a_file_is_no_model_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="not a directory"):
        pack_directory(tree(tmp_path, "a.py") / "a.py")
