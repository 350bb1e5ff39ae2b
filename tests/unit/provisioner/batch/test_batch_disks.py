"""The directories of jobs on a disk of this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from provisioner.batch.disks import LocalDisk


def test_files_and_all_of_their_folders_are_private(tmp_path: Path) -> None:
    """Whatever the umask: they hold tokens."""
    file = tmp_path / "jobs" / "wl-1" / "nodes" / "0" / "host.json"
    before = os.umask(0)
    try:
        LocalDisk().write(file, b"first")
        LocalDisk().write(file, b"second")
    finally:
        os.umask(before)
    assert file.read_bytes() == b"second"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in list(file.parents)[:4]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert LocalDisk().tail(file, 3) == b"ond"
    LocalDisk().remove(tmp_path / "jobs")
    assert not (tmp_path / "jobs").exists()
