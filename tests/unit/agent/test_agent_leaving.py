"""What `windlass agent leave` removes of a work_dir that an operator has named."""

from __future__ import annotations

from pathlib import Path

from agent_bootstrap.agent.connection.credential import load_or_create
from agent_bootstrap.agent.containers.directory import ContainerDirs
from agent_bootstrap.agent.membership.leave import remove_files


def a_work_dir(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    load_or_create(path)
    dirs = ContainerDirs(path)
    with dirs.locked():
        dirs.load()
    (path / "containers" / "c1").mkdir(parents=True, exist_ok=True)
    return path


def test_a_folder_of_its_own_goes_whole(tmp_path: Path) -> None:
    work_dir = a_work_dir(tmp_path / "agent")
    assert remove_files(work_dir) == 0
    assert not work_dir.exists()


def test_what_others_keep_there_stays(tmp_path: Path) -> None:
    work_dir = a_work_dir(tmp_path)
    (work_dir / "data").mkdir()
    (work_dir / "data" / "model.bin").write_text("years of work")
    assert remove_files(work_dir) == 1
    assert [path.name for path in work_dir.iterdir()] == ["data"]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    work_dir = tmp_path / "agent"
    work_dir.mkdir()
    (work_dir / "images").symlink_to(elsewhere)
    assert remove_files(work_dir) == 0
    assert (elsewhere / "kept").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert remove_files(tmp_path / "agent") == 0
