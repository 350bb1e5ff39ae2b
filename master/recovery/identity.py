"""Which cluster a data folder belongs to: `cluster.json`, and what the databases note of the same."""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from windlass.base.errors import InvalidState
from windlass.base.files import write_atomic

FILE = "cluster.json"
LAST_BACKUP = "last-backup.json"
FORMAT = 1
"""Of the folder. A release that finds a higher number refuses it."""
CLUSTER_ID = "cluster_id"
SECRET_MARK = "secret_mark"  # noqa: S105  (the name of a row)


class FolderState(StrEnum):
    CREATING = "creating"
    """The first start has begun: whatever is missing will be made."""
    RESTORING = "restoring"
    """A backup is being copied into it."""
    WHOLE = "whole"


class Identity(BaseModel):
    """The content of `cluster.json`."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    cluster_id: str
    state: FolderState = FolderState.WHOLE


class LastBackup(BaseModel):
    """Where the newest backup went, for messages."""

    model_config = ConfigDict(frozen=True)

    path: str
    made_at: str


def read_identity(folder: Path) -> Identity | None:
    """None: a folder of 0.1, or none at all. Raises InvalidState if it cannot be read."""
    path = folder / FILE
    try:
        return Identity.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise InvalidState(
            f"{path} is damaged: remove it (the database notes the cluster, too) and start again"
        ) from None


def write_identity(folder: Path, identity: Identity) -> None:
    write_atomic(folder / FILE, identity.model_dump_json().encode() + b"\n", durable=True)


def secret_mark(secret: bytes, cluster_id: str) -> str:
    """What the database notes of the secret, to recognise it: says nothing about it."""
    return hmac.new(secret, f"cluster:{cluster_id}".encode(), hashlib.sha256).hexdigest()


def note_backup(folder: Path, backup: LastBackup) -> None:
    write_atomic(folder / LAST_BACKUP, backup.model_dump_json().encode() + b"\n", durable=True)


def way_back(folder: Path) -> str:
    """What to do about a damaged folder, by the last backup that was made of it."""
    command = "windlass master restore {} --data-dir NEW_FOLDER"
    try:
        last = LastBackup.model_validate_json((folder / LAST_BACKUP).read_bytes())
    except (OSError, ValidationError):
        return f"restore a backup ({command.format('BACKUP')}); none is noted in {folder}"
    return f"restore the backup of {last.made_at} ({command.format(last.path)})"


Kind = Literal["sqlite", "postgresql"]
"""Of database."""
