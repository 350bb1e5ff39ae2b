"""The /tmp of tasks on another disk than the agent's own directory."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from agent_bootstrap.agent.batch.scratch import LEFT_AFTER_S, find_scratch, sweep
from agent_bootstrap.agent.containers.directory import (
    ContainerDir,
    ContainerDirs,
    ContainerRecord,
    remove_tree,
)


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


CONTAINER = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def left(base: Path, name: str, age_s: float = LEFT_AFTER_S + 60) -> Path:
    folder = base / f"windlass-{name}"
    (folder / "tmp").mkdir(parents=True)
    ago = time.time() - age_s
    os.utime(folder, (ago, ago))
    return folder


def test_what_a_kill_of_everything_left_is_swept_later(tmp_path: Path) -> None:
    left(tmp_path, CONTAINER)
    young = left(tmp_path, f"{CONTAINER[:-1]}8", age_s=0)
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [young]


@pytest.mark.parametrize(
    "name", ["results", f"checkpoint-{CONTAINER}", f"{CONTAINER}-copy", "podman-1000"]
)
def test_folders_that_only_begin_alike_stay(tmp_path: Path, name: str) -> None:
    folder = left(tmp_path, name)
    sweep(tmp_path)
    assert (folder / "tmp").is_dir()


def test_what_still_runs_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left(tmp_path, CONTAINER)
    monkeypatch.setattr(
        "agent_bootstrap.agent.batch.scratch.marked_processes",
        lambda name, value: [1] if value == CONTAINER else [],
    )
    sweep(tmp_path)
    assert folder.exists()


def test_a_tree_that_another_process_removes_at_the_same_time_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the supervisor of its task does."""
    folder = left(tmp_path, CONTAINER)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    gone = [(str(folder), [], []), (str(folder / "gone"), [], [])]
    monkeypatch.setattr(os, "walk", lambda _: gone)
    remove_tree(folder)
    monkeypatch.setattr(shutil, "rmtree", remove)
    remove_tree(folder)
    assert not folder.exists()
