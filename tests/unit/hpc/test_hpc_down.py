"""`windlass hpc down`: what it says of what stays."""

from __future__ import annotations

from pathlib import Path

from master.hpc.down import directories_left
from master.hpc.place import MasterFolder


def test_directories_of_ended_jobs_are_said_to_stay_and_why(tmp_path: Path) -> None:
    """They hold exits and output that no master has heard of yet."""
    place = MasterFolder(tmp_path)
    place.make()
    assert list(directories_left(place, ())) == []
    for name in ("wl-c0ffee00-1", "wp-c0ffee00-2", "asks"):
        (tmp_path / "jobs" / name).mkdir()
    (said,) = directories_left(place, {"wp-c0ffee00-2"})
    assert said.startswith(f"Directories of ended jobs in {tmp_path}/jobs: 1. The next")
    assert said.endswith(f"rm -r {tmp_path}/jobs")
    assert list(directories_left(place, {"wl-c0ffee00-1", "wp-c0ffee00-2"})) == []
