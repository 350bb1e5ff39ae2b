"""What a task sees of its machine, as a list of mounts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.mount_list import Mount, is_in, staged_sources
from agent_bootstrap.agent.runtimes.task_root import (
    MAX_REPEATED_ENTRIES,
    SYSTEM,
    TaskMounts,
    hidden_mounts,
    is_shared,
    task_mounts,
    topmost,
)
from agent_bootstrap.protocol import Bind


def mounts(tmp_path: Path, **wishes: object) -> list[Mount]:
    return task_mounts(ContainerDir(tmp_path / "c1"), TaskMounts(**wishes))  # type: ignore[arg-type]


def at(found: list[Mount], target: str) -> list[Mount]:
    return [mount for mount in found if mount.target == target]


@pytest.mark.parametrize(
    ("path", "folder", "inside"),
    [
        ("/a", "/a", True),
        ("/a/b", "/a", True),
        ("/ab", "/a", False),
        ("/a", "/a/b", False),
        ("/a", "/", True),
        ("/a/b", "/a/", True),
    ],
)
def test_what_is_in_a_folder(path: str, folder: str, inside: bool) -> None:
    assert is_in(path, folder) is inside


def test_the_system_is_only_there_to_be_read(tmp_path: Path) -> None:
    found = mounts(tmp_path)
    for mount in found:
        if mount.kind == "bind" and (mount.target in SYSTEM or mount.target == "/sys"):
            assert mount.read_only
    writable = {mount.target for mount in found if mount.kind == "bind" and not mount.read_only}
    assert writable == {"/tmp", "/run/determined"}
    assert all(mount.by_user is False for mount in found)
    assert found[-1] == Mount(kind="seal", target="/dev"), "nothing is added after that"


def test_what_lies_in_another_mount_comes_after_it(tmp_path: Path) -> None:
    binds = [
        Bind(source=str(tmp_path), target="/mnt/data/deep/er"),
        Bind(source=str(tmp_path), target="/mnt/data"),
    ]
    found = [m.target for m in mounts(tmp_path, binds=binds) if m.target.startswith("/mnt/data")]
    assert found == ["/mnt/data", "/mnt/data/deep/er"]


def test_mounts_of_users_are_theirs_and_those_of_the_cluster_are_the_agents(tmp_path: Path) -> None:
    own, shared = (
        Bind(source=str(tmp_path), target="/mnt/own", read_only=True),
        Bind(source=str(tmp_path), target="/mnt/shared"),
    )
    found = mounts(tmp_path, binds=[own], cluster_binds=[shared])
    (of_user,), (of_cluster,) = at(found, "/mnt/own"), at(found, "/mnt/shared")
    assert (of_user.by_user, of_user.private, of_user.exact) == (True, False, True)
    assert (of_cluster.by_user, of_cluster.private, of_cluster.exact) == (False, True, True)
    assert of_user.read_only
    staged = staged_sources(found)
    assert (str(tmp_path), True) in staged
    assert staged.count((str(tmp_path), True)) == 1, "a user's is opened with the user's rights"


def test_what_is_forbidden_is_hidden_wherever_a_mount_would_show_it(tmp_path: Path) -> None:
    secret = tmp_path / "data" / "agent"
    secret.mkdir(parents=True)
    (tmp_path / "data" / "token").touch()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    shown = [
        Mount(kind="bind", source=str(tmp_path / "link"), target="/mnt/a"),
        Mount(kind="bind", source=str(tmp_path), target="/mnt/b/"),
        Mount(kind="bind", source=str(secret), target="/mnt/c"),
    ]
    forbidden = [str(secret), str(tmp_path / "data" / "token"), str(tmp_path / "not-there")]
    hidden = {(m.target, m.source) for m in hidden_mounts(shown, forbidden)}
    assert hidden == {
        ("/mnt/a/agent", "folder"),
        ("/mnt/a/token", "file"),
        ("/mnt/b/data/agent", "folder"),
        ("/mnt/b/data/token", "file"),
    }


def test_passwords_of_the_machine_are_hidden(tmp_path: Path) -> None:
    hidden = {mount.target for mount in mounts(tmp_path) if mount.kind == "hide"}
    assert not Path("/etc/shadow").exists() or "/etc/shadow" in hidden


def test_a_folder_that_is_missing_in_the_system_is_made_without_touching_the_machine(
    tmp_path: Path,
) -> None:
    target = "/usr/share/windlass-test/deep"
    found = mounts(tmp_path, binds=[Bind(source=str(tmp_path), target=target)])
    assert at(found, "/usr/share")[0].kind == "tmpfs"
    repeated = {m.target for m in found if str(Path(m.target).parent) == "/usr/share"}
    assert repeated >= {entry.path for entry in os.scandir("/usr/share")}
    assert Mount(kind="seal", target="/usr/share") in found
    assert not os.path.lexists("/usr/share/windlass-test")


def test_a_folder_that_is_too_large_to_be_repeated_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: ["x"] * (MAX_REPEATED_ENTRIES + 1))
    bind = Bind(source=str(tmp_path), target="/usr/share/windlass-test")
    with pytest.raises(StartRefused, match="create /usr/share/windlass-test on the machine"):
        mounts(tmp_path, binds=[bind])


def test_a_home_with_a_python_in_it_is_not_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/data/people/ann")
    shared = ["/", "/home", "/home/ann", "/root", "/data/people/ann"]
    assert [is_shared(path) for path in shared] == [True] * 5
    assert not is_shared("/home/ann/venv")
    assert topmost(["/a/b/c", "/a/b", "/ab", "/a/b"]) == ["/a/b", "/ab"]
