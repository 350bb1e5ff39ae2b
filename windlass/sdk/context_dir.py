"""A model directory as the list of files that goes with an experiment."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from windlass.base.errors import InvalidArgument
from windlass.sdk.wire import Json

MAX_BYTES = 95 * 1024 * 1024
"""Of all contents together, before base64. The API's own limit, too."""
IGNORE_FILE = ".detignore"
FALLBACK_IGNORE_FILE = ".gitignore"
_REGULAR, _DIRECTORY = 48, 53
"""The tar type flags '0' and '5', as the wire has them."""
_ALWAYS_IGNORED = (
    "__pycache__/",
    "*.py[co]",
    "*$py.class",
    "terraform",
    "terraform_data",
    "terraform.tfstate*",
    "terraform.tfvars*",
    ".terraform*",
    ".git/",
    ".vscode/",
    ".idea/",
    ".mypy_cache/",
    "/shared_fs",
)


_DEFAULTS = pathspec.GitIgnoreSpec.from_lines(_ALWAYS_IGNORED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file or directory, path relative to the model directory in POSIX form."""

    path: str
    mode: int
    mtime: int
    is_dir: bool = False
    content: bytes = b""

    def to_json(self) -> Json:
        return {
            "path": self.path,
            "type": _DIRECTORY if self.is_dir else _REGULAR,
            "content": base64.b64encode(self.content).decode(),
            "mtime": str(self.mtime),
            "mode": self.mode,
            "uid": 0,
            "gid": 0,
        }


@dataclass(slots=True)
class Packed:
    """What will be sent, and lines for the user on what will not."""

    files: list[FileEntry] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    total_bytes: int = 0


def pack_directory(model_dir: Path | None, includes: Sequence[Path] = ()) -> Packed:
    """Read a model directory, if there is one, and `includes` beside its content under their own names.

    `.detignore` names what is not uploaded (gitignore syntax); without one, `.gitignore` does, with a notice.
    Links to files are followed; a linked directory is uploaded empty. Raises InvalidArgument when it is too large or
    not a directory.
    """
    packed = Packed()
    roots: set[str] = set()
    if model_dir is not None:
        if not model_dir.is_dir():
            raise InvalidArgument(
                f"{model_dir}: expected the directory of the model code, but it is not a directory"
            )
        roots |= {entry.name for entry in model_dir.iterdir()}
        _pack_tree(packed, model_dir, "")
    for include in includes:
        name = include.resolve().name
        if name in roots:
            raise InvalidArgument(
                f"--include {include}: {name!r} is already in the model directory"
            )
        roots.add(name)
        if include.is_dir():
            packed.files.append(_directory_entry(include, name))
            _pack_tree(packed, include, f"{name}/")
        elif include.is_file():
            _add_file(packed, include, name)
        else:
            raise InvalidArgument(f"--include {include}: no such file or directory")
    return packed


def _pack_tree(packed: Packed, root: Path, prefix: str) -> None:
    spec, source = _ignore_rules(root)
    left_out = 0
    for path, relative in _walk(root, "", spec):
        if path is None:
            left_out += not _DEFAULTS.match_file(relative)
        elif path.is_dir():
            packed.files.append(_directory_entry(path, prefix + relative))
        else:
            _add_file(packed, path, prefix + relative)
    if left_out and source == FALLBACK_IGNORE_FILE:
        packed.notices.append(
            f"{left_out} files and directories are not uploaded because of {root / source}; "
            f"write a {IGNORE_FILE} to change that"
        )


def _walk(
    directory: Path, prefix: str, spec: pathspec.GitIgnoreSpec
) -> Iterator[tuple[Path | None, str]]:
    """Sub-directories, then files, then what is inside: parents always come before children. None: ignored."""
    directories: list[tuple[Path, str]] = []
    files: list[tuple[Path, str]] = []
    for entry in sorted(directory.iterdir()):
        relative = prefix + entry.name
        is_dir = entry.is_dir()
        if spec.match_file(f"{relative}/" if is_dir else relative):
            yield None, f"{relative}/" if is_dir else relative
        else:
            (directories if is_dir else files).append((entry, relative))
    yield from directories
    yield from files
    for entry, relative in directories:
        if not entry.is_symlink():
            yield from _walk(entry, f"{relative}/", spec)


def _ignore_rules(root: Path) -> tuple[pathspec.GitIgnoreSpec, str | None]:
    lines = [*_ALWAYS_IGNORED, f"/{IGNORE_FILE}"]
    for name in (IGNORE_FILE, FALLBACK_IGNORE_FILE):
        path = root / name
        if path.is_file():
            return pathspec.GitIgnoreSpec.from_lines([*lines, *path.read_text().splitlines()]), name
    return pathspec.GitIgnoreSpec.from_lines(lines), None


def _directory_entry(path: Path, name: str) -> FileEntry:
    info = path.stat()
    return FileEntry(path=name, mode=info.st_mode, mtime=int(info.st_mtime), is_dir=True)


def _add_file(packed: Packed, path: Path, name: str) -> None:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode) or not os.access(path, os.R_OK):
            packed.notices.append(f"{name} is not uploaded: not a readable file")
            return
        packed.total_bytes += info.st_size
        if packed.total_bytes > MAX_BYTES:
            raise InvalidArgument(
                f"The files to send have more than {MAX_BYTES // 2**20} MiB (reached at {name}): "
                f"exclude data with a {IGNORE_FILE}, and mount it with bind_mounts"
            )
        content = path.read_bytes()
    except OSError as problem:
        packed.notices.append(f"{name} is not uploaded: {problem.strerror or problem}")
        return
    packed.files.append(
        FileEntry(path=name, mode=info.st_mode, mtime=int(info.st_mtime), content=content)
    )
