"""The folder that all login nodes see: where the master is, and what another machine is told."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from hpc_world import DISK, HOME, facts

from master.hpc.place import MasterFolder, MasterRecord, find_place, known_place
from master.hpc.plan import SitePlan, plan_of
from master.hpc.private import require_here, write_config
from master.hpc.site.file_systems import look_at
from windlass.base.errors import Conflict, InvalidArgument

RUNNING = MasterRecord(
    host="login2",
    folder=Path(DISK.path),
    url="https://10.0.0.5:21000",
    cluster_id="c0ffee",
    system="slurm",
)


def planned(address: str = "127.0.0.1") -> SitePlan:
    return plan_of(facts(address=address, shared=(HOME,)), uid=1000)


def test_it_is_private_and_remembers_the_master(tmp_path: Path) -> None:
    place = MasterFolder(tmp_path / "windlass")
    place.make()
    place.note(RUNNING)
    assert find_place(place.path) == (place, RUNNING)
    for path in (place.path, place.path / "jobs", place.path / "checkpoints", place.record):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_folder_that_is_there_stays_as_open_as_it_is(tmp_path: Path) -> None:
    """A group may read a model there; that it can is said before."""
    tmp_path.chmod(0o750)
    MasterFolder(tmp_path).make()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "jobs").stat().st_mode) == 0o700
    assert look_at(tmp_path, "--dir").others_enter
    tmp_path.chmod(0o700)
    assert not look_at(tmp_path, "--dir").others_enter


def test_a_folder_without_a_master_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"no master of yours was started in .*hpc up"):
        known_place(tmp_path)


def test_a_damaged_record_is_no_new_master(tmp_path: Path) -> None:
    MasterFolder(tmp_path).record.write_text("{")
    with pytest.raises(Conflict, match=r"master.json is damaged"):
        find_place(tmp_path)


@pytest.mark.parametrize("how", ["group", "link", "owner"])
def test_what_others_can_write_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """$PROJECT is often a team's: the record of another user names a folder of programs that would be run."""
    project, home = tmp_path / "project", tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PROJECT", str(project))
    for name in ("WORK", "SCRATCH"):
        monkeypatch.delenv(name, raising=False)
    theirs = MasterFolder((tmp_path if how == "link" else project) / "windlass")
    theirs.make()
    theirs.note(RUNNING)
    if how == "group":
        theirs.path.chmod(0o770)
    elif how == "link":
        project.mkdir()
        (project / "windlass").symlink_to(theirs.path)
    else:
        monkeypatch.setattr("os.geteuid", lambda: 4711)
    assert find_place(None) is None
    with pytest.raises(InvalidArgument, match="no master of yours"):
        known_place(None)
    with pytest.raises(Conflict, match=r"project/windlass is a link, belongs to another user"):
        find_place(project / "windlass")


def test_another_login_node_is_told_where_to_go() -> None:
    """They come in round robin."""
    require_here(RUNNING, "login2", "")
    with pytest.raises(Conflict, match="your master runs on login2, at https://10") as refused:
        require_here(RUNNING, "login1", " --dir /work/me")
    assert re.search(r"ssh login2 \S+windlass hpc status --dir /work/me$", refused.value.message)
    stopped = RUNNING.model_copy(update={"is_up": False})
    with pytest.raises(Conflict, match=r"on a disk of login2 .*ssh login2 \S+windlass hpc up"):
        require_here(stopped, "login1", "")
    require_here(RUNNING.model_copy(update={"job": "wm-1"}), "login1", "")


def test_master_yaml_is_never_written_over_unasked(tmp_path: Path) -> None:
    place = MasterFolder(tmp_path)
    assert write_config(place, planned(), overwrite=False)
    place.master_yaml.write_text("# mine\n")
    assert not write_config(place, planned(), overwrite=False)
    assert place.master_yaml.read_text() == "# mine\n"
    assert write_config(place, planned(), overwrite=True)
    assert (tmp_path / "master.yaml.old").read_text() == "# mine\n"
    assert stat.S_IMODE(place.master_yaml.stat().st_mode) == 0o600


def test_an_address_that_is_not_of_this_machine(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"cannot listen on 192.0.2.1 .*--host"):
        write_config(MasterFolder(tmp_path), planned("192.0.2.1"), overwrite=False)
    assert not MasterFolder(tmp_path).master_yaml.exists()
