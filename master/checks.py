"""What a master needs of its data folder, for `windlass doctor`."""

from __future__ import annotations

import os
from pathlib import Path

from master.data_folder import SECRET, default_folder
from windlass.base.checks import Check, Status

NAME = "master: data folder"


def checks() -> list[Check]:
    folder = Path(os.environ.get("WINDLASS_DATA_DIR") or default_folder())
    return [check_folder(folder)]


def check_folder(folder: Path) -> Check:
    """One that does not exist yet is fine if it can be made."""
    place = folder
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        return _failed(f"{place} is not a directory", "give another --data-dir")
    if not os.access(place, os.W_OK | os.X_OK):
        owner = f"chown it to user {os.geteuid()}, or give another --data-dir"
        return _failed(f"{place} is not writable for this user", owner)
    secret = folder / SECRET
    if secret.exists() and secret.stat().st_mode & 0o077:
        return _failed(f"others may read {secret}", f"chmod 600 {secret}")
    state = "used by a master" if secret.exists() else "not used yet"
    return Check(name=NAME, found=f"{folder}: {state}")


def _failed(found: str, advice: str) -> Check:
    return Check(name=NAME, status=Status.FAILED, found=found, advice=advice)
