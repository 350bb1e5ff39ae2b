"""What a backup says of itself: `manifest.json`, written last, so that a folder without one is no backup."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from master.recovery.identity import Kind
from windlass.base.errors import InvalidArgument, InvalidState
from windlass.base.files import write_atomic

MANIFEST = "manifest.json"
FORMAT = 1
CHUNK = 1024 * 1024


def _inside(name: str) -> str:
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError("must be a path inside the backup")
    return name


FileName = Annotated[str, AfterValidator(_inside)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BackupFile(_Closed):
    sha256: str
    size: int = Field(ge=0)


class TableEntry(_Closed):
    """A table of a PostgreSQL database, in the order in which they can be filled."""

    name: str = Field(pattern=r"^[a-z_]+$")
    columns: tuple[Annotated[str, Field(pattern=r"^[a-z_]+$")], ...]
    rows: int = Field(ge=0)


class Manifest(_Closed):
    format: int = FORMAT
    windlass: str
    """The release that made it."""
    made_at: AwareDatetime
    cluster_id: str
    database: Kind
    state_revision: str
    logs_revision: str
    """Of the schemas of the two databases."""
    files: dict[FileName, BackupFile]
    tables: tuple[TableEntry, ...] = ()
    missing_blobs: tuple[str, ...] = ()
    """Blobs that the database names and the data folder did not have whole."""


def write_manifest(backup: Path, manifest: Manifest) -> None:
    text = manifest.model_dump_json(indent=1)
    write_atomic(backup / MANIFEST, text.encode() + b"\n", durable=True)


def read_manifest(backup: Path) -> Manifest:
    """Raises InvalidArgument for what is no backup, InvalidState for a damaged one or one of a newer release."""
    path = backup / MANIFEST
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidArgument(f"{backup} is not a backup: it has no {MANIFEST}") from None
    try:
        said = _Version.model_validate_json(content)
        if said.format > FORMAT:
            raise InvalidState(
                f"{backup} was made by Windlass {said.windlass}, which is newer: restore it with that release"
            )
        return Manifest.model_validate_json(content)
    except ValidationError:
        raise InvalidState(f"{path} is damaged: use another backup") from None


class _Version(BaseModel):
    format: int
    windlass: str


def problems_of(backup: Path, manifest: Manifest) -> Iterator[str]:
    """What is not as the manifest says."""
    for name, entry in manifest.files.items():
        path = backup / name
        if not path.is_file():
            yield f"{path} is missing"
        elif path.stat().st_size != entry.size:
            yield f"{path} has {path.stat().st_size} bytes instead of {entry.size}"
        elif hash_file(path) != entry.sha256:
            yield f"{path} was changed: its SHA-256 is another"


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def entry_of(path: Path) -> BackupFile:
    return BackupFile(sha256=hash_file(path), size=path.stat().st_size)


def copy_private(source: Path, target: Path) -> BackupFile:
    """Copy a file, durable and only for its owner (0600); what was copied."""
    make_private(target.parent)
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with source.open("rb") as file, os.fdopen(descriptor, "wb") as copy:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
            copy.write(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    return BackupFile(sha256=digest.hexdigest(), size=size)


def make_private(folder: Path) -> None:
    """Make the folder and those above it that are missing, all 0700."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700)


def sync_folders(top: Path) -> None:
    """Make the names of all files below durable."""
    for folder in (top, *(p for p in top.rglob("*") if p.is_dir())):
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
