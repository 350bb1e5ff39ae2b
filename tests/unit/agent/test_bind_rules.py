"""What of a machine may be mounted into a task."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.bind_rules import HostPaths, problem_of

OPEN = HostPaths()
LISTED = HostPaths(allowed=("/data", "/dev/infiniband"))


@pytest.mark.parametrize("path", ["/data", "/home/alice/code", "/opt", "/nfs/a b", "/devices"])
def test_a_task_that_is_not_root_may_mount_any_ordinary_path(path: str) -> None:
    assert problem_of(path, OPEN, as_root=False) is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "whole machine"),
        ("//", "whole machine"),
        ("/.", "whole machine"),
        ("/data/../..", "whole machine"),
        ("/proc", "in /proc"),
        ("/proc/1/root", "/proc"),
        ("/proc/self/cwd", "/proc"),
        ("//proc//sys", "in /proc"),
        ("data", "not an absolute path"),
        ("", "not an absolute path"),
        ("/a\0b", "not an absolute path"),
        ("/sys", "is in /sys, of which allowed_host_paths of master.yaml names nothing"),
        ("/dev/mem", "is in /dev"),
        ("/run/docker.sock", "is in /run"),
        ("/data/../dev", "is in /dev"),
    ],
)
def test_what_nobody_may_mount_without_a_word_of_the_operator(path: str, words: str) -> None:
    problem = problem_of(path, OPEN, as_root=False)
    assert problem is not None
    assert words in problem


@pytest.mark.parametrize("as_root", [False, True])
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/data", None),
        ("/data/sets", None),
        ("/dev/infiniband/uverbs0", None),
        ("/data2", "is not in allowed_host_paths of master.yaml: /data, /dev/infiniband"),
        ("/data/../etc", "is not in allowed_host_paths"),
        ("/dev", "is in /dev, of which allowed_host_paths of master.yaml names /dev/infiniband"),
        ("/dev/mem", "is in /dev"),
    ],
)
def test_a_written_list_is_all_there_is(path: str, problem: str | None, as_root: bool) -> None:
    found = problem_of(path, LISTED, as_root=as_root)
    assert found is None if problem is None else problem in (found or "")


def test_naming_the_root_does_not_name_devices() -> None:
    rules = HostPaths(allowed=("/",))
    assert problem_of("/data", rules, as_root=True) is None
    assert problem_of("/dev/mem", rules, as_root=True) is not None
    assert problem_of("/", rules, as_root=True) is not None


def test_a_root_task_may_mount_what_the_cluster_itself_mounts() -> None:
    rules = HostPaths(cluster=("/ckpt",))
    assert problem_of("/ckpt/sub", rules, as_root=True) is None
    assert problem_of("/home", rules, as_root=True) == (
        "may not be mounted by a task that runs as root, only /ckpt: "
        "name it in allowed_host_paths of master.yaml"
    )


def test_what_the_cluster_mounts_needs_no_entry_in_its_list() -> None:
    rules = HostPaths(allowed=("/data",), cluster=("/ckpt", "/dev/fuse"))
    assert problem_of("/ckpt", rules, as_root=False) is None
    assert problem_of("/dev/fuse", rules, as_root=False) is None


@pytest.mark.parametrize("as_root", [False, True])
@pytest.mark.parametrize("below", ["", "secret", "agent/containers/1"])
def test_never_a_folder_of_windlass_nor_what_holds_it(
    tmp_path: Path, below: str, as_root: bool
) -> None:
    folder = tmp_path / "windlass" / "master"
    rules = HostPaths(allowed=(str(tmp_path),), forbidden=(str(folder),))
    for path in (folder / below, folder.parent, tmp_path):
        problem = problem_of(str(path), rules, as_root=as_root)
        assert problem == f"would show {folder}, a folder of Windlass itself: mount another"
    assert problem_of(str(tmp_path / "windlass-data"), rules, as_root=as_root) is None


def test_the_storage_inside_the_masters_folder_is_the_one_exception(tmp_path: Path) -> None:
    storage = tmp_path / "checkpoints"
    rules = HostPaths(forbidden=(str(tmp_path),), cluster=(str(storage),))
    assert problem_of(str(storage), rules, as_root=False) is None
    assert problem_of(f"{storage}/../secret", rules, as_root=False) is not None
    assert problem_of(str(tmp_path), rules, as_root=False) is not None


@pytest.mark.parametrize("as_root", [False, True])
def test_links_are_followed_before_they_are_judged(tmp_path: Path, as_root: bool) -> None:
    own, data = tmp_path / "own", tmp_path / "data"
    own.mkdir()
    data.mkdir()
    (data / "innocent").symlink_to(own)
    (data / "deep").symlink_to("/")
    (data / "kernel").symlink_to("/proc")
    (data / "fine").symlink_to(data)
    rules = HostPaths(allowed=(str(data),), forbidden=(str(own),))
    for name in ("innocent", "innocent/x", "deep", "deep/etc", "kernel", "kernel/1"):
        problem = problem_of(str(data / name), rules, as_root=as_root)
        assert "(a link to " in (problem or ""), name
    assert problem_of(str(data / "fine"), rules, as_root=as_root) is None


def test_the_list_itself_may_name_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    rules = HostPaths(allowed=(str(tmp_path / "link"),))
    assert problem_of(str(tmp_path / "real" / "x"), rules, as_root=True) is None


_PIECES = st.sampled_from(["..", ".", "a", "proc", "own", "dev", "", "ckpt"])


@given(st.lists(_PIECES, max_size=8).map(lambda pieces: "/" + "/".join(pieces)))
def test_no_spelling_reaches_what_is_forbidden(path: str) -> None:
    rules = HostPaths(forbidden=("/own",), cluster=("/own/ckpt",))
    if problem_of(path, rules, as_root=False) is None:
        real = "/" + os.path.normpath(path).lstrip("/")
        assert real != "/"
        assert not real.startswith(("/proc", "/dev"))
        assert not f"{real}/".startswith("/own/") or f"{real}/".startswith("/own/ckpt/")
