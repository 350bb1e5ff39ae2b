"""The /tmp of tasks on another disk than the agent's own directory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent_bootstrap.agent.container_dir import ContainerDir, ContainerDirs, ContainerRecord
from agent_bootstrap.agent.scratch import LEFT_AFTER_S, find_scratch, sweep


def record(id_: str) -> ContainerRecord:
    return ContainerRecord(container_id=id_, allocation_id="a", task_id="t", boot_id="b")


@pytest.mark.parametrize(
    ("candidates", "found"),
    [
        (["$SLURM_TMPDIR", "$TMPDIR", "/tmp"], "job"),
        (["${TMPDIR}", "/tmp"], "tmp"),
        (["$TMPDIR/$USER"], "tmp/me"),
        (["$MISSING/x"], None),
        (["missing", "relative"], None),
        ([], None),
    ],
)
def test_the_first_that_is_there_counts(
    tmp_path: Path, candidates: list[str], found: str | None
) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "tmp/me").mkdir(parents=True)
    environ = {
        "SLURM_TMPDIR": str(tmp_path / "job"),
        "TMPDIR": str(tmp_path / "tmp"),
        "USER": "me",
    }
    expected = None if found is None else tmp_path / found
    assert find_scratch(candidates, environ) == expected


def test_it_is_private_and_goes_with_its_container(tmp_path: Path) -> None:
    base = tmp_path / "local"
    base.mkdir()
    dirs = ContainerDirs(tmp_path / "shared")
    with dirs.locked():
        place = dirs.of("c1")
        place.create(record("c1"))
        place.make_tmp(base)
        assert place.tmp == base / "windlass-c1/tmp"
        assert (base / "windlass-c1").stat().st_mode & 0o777 == 0o700
        assert place.tmp.stat().st_mode & 0o7777 == 0o1777
        (place.tmp / "file").touch()
        dirs.remove("c1")
        assert list(base.iterdir()) == []


def test_without_one_it_is_in_the_containers_own_folder(tmp_path: Path) -> None:
    place = ContainerDir(tmp_path)
    place.make_tmp(None)
    assert place.tmp == tmp_path / "tmp"
    assert place.scratch is None


def test_what_a_crash_leaves_in_the_trash_takes_its_scratch_along(tmp_path: Path) -> None:
    base = tmp_path / "local"
    base.mkdir()
    dirs = ContainerDirs(tmp_path / "shared")
    with dirs.locked():
        place = ContainerDir(tmp_path / "shared/trash/c1")
        place.path.mkdir()
        place.make_tmp(base)
        assert dirs.load() == []
        assert list(base.iterdir()) == []


def test_what_a_kill_of_everything_left_is_swept_later(tmp_path: Path) -> None:
    old, young, foreign = (tmp_path / f"windlass-{name}" for name in ("old", "young", "other"))
    for folder in (old, young):
        (folder / "tmp").mkdir(parents=True)
    foreign.mkdir()
    ago = time.time() - LEFT_AFTER_S - 60
    for folder in (old, foreign):
        os.utime(folder, (ago, ago))
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["windlass-other", "windlass-young"]


def test_what_still_runs_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "windlass-c1"
    (folder / "tmp").mkdir(parents=True)
    ago = time.time() - LEFT_AFTER_S - 60
    os.utime(folder, (ago, ago))
    monkeypatch.setattr(
        "agent_bootstrap.agent.scratch.marked_processes",
        lambda name, value: [1] if value == "c1" else [],
    )
    sweep(tmp_path)
    assert folder.exists()
