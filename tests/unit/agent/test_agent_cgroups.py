"""Limits of tasks, on a tree of files that looks like cgroup v2."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.runtimes.cgroups import (
    MAX_PIDS,
    MOUNT,
    Cgroups,
    find_cgroups,
    limited,
    task_limits,
)
from agent_bootstrap.container_options import ContainerLimits
from agent_bootstrap.supervisor import cgroup
from agent_bootstrap.supervisor.supervisor import Supervisor

UNIFIED = [
    line.split()[1]
    for line in Path("/proc/mounts").read_text().splitlines()
    if line.split()[2] == "cgroup2" and os.geteuid() == 0 and os.access(line.split()[1], os.W_OK)
]
OURS = "user.slice/user@1000.service/windlass.service"


def tree(mount: Path, *groups: str, controllers: str = "cpuset cpu io memory pids") -> Path:
    for name in ("", *groups):
        group = mount / name
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.controllers").write_text(controllers)
        (group / "cgroup.subtree_control").touch()
        (group / "cgroup.procs").touch()
    return mount


def own(mount: Path, path: str) -> Path:
    file = mount.parent / "own"
    file.write_text(f"1:name=systemd:/x\n0::/{path}\n")
    return file


def find(mount: Path, path: str = "", *, is_root: bool = False) -> Cgroups:
    return find_cgroups(mount, own(mount, path), is_root=is_root)


def test_root_has_a_group_of_its_own_beside_those_of_systemd(tmp_path: Path) -> None:
    mount = tree(tmp_path / "cg", "windlass")
    assert find(mount, "system.slice/agent.service", is_root=True).base == mount / "windlass"
    for group in (mount, mount / "windlass"):
        assert (group / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_a_delegated_agent_leaves_its_group_to_its_tasks(tmp_path: Path) -> None:
    mount = tree(tmp_path / "cg", OURS)
    assert find(mount, OURS).base == mount / OURS
    assert (mount / OURS / "agent" / "cgroup.procs").read_text() == "0"
    # As the next agent finds it, or with systemd's DelegateSubgroup=agent.
    assert find(mount, f"{OURS}/agent").base == mount / OURS
    assert not (mount / OURS / "agent" / "agent").exists()


@pytest.mark.parametrize(
    ("controllers", "why"),
    [("cpu pids", "cgroups here have no memory"), ("", "cgroups here have no cpu, memory, pids")],
)
def test_what_the_machine_lacks_is_named(controllers: str, why: str, tmp_path: Path) -> None:
    mount = tree(tmp_path / "cg", OURS, controllers=controllers)
    assert find(mount, OURS) == Cgroups(absent=why)


def test_without_version_2_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "cg" / "unified").mkdir(parents=True)
    assert find(tmp_path / "cg") == Cgroups(absent="this machine has no cgroup v2")


def test_limits_are_written_before_the_task_enters(tmp_path: Path) -> None:
    groups = Cgroups(base=tree(tmp_path / "cg"))
    limits = ContainerLimits(cpus=1.5, memory_bytes=2**30, pids=100)
    keys = limited(ContainerDir(tmp_path / "c-1"), limits, groups, own_user=True)
    group = tmp_path / "cg" / "c-1"
    assert (keys["cgroup"], keys["memory_bytes"]) == (str(group), 2**30)
    assert keys["watched_bytes"] == 0, "the kernel watches it"
    files = {path.name: path.read_text() for path in group.iterdir()}
    assert files == {
        "pids.max": "100",
        "memory.max": str(2**30),
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "cpu.max": "150000 100000",
    }
    (group / "cgroup.procs").touch()
    cgroup.enter(str(group))
    assert (group / "cgroup.procs").read_text() == "0"


def test_without_limits_only_processes_are_bounded(tmp_path: Path) -> None:
    groups = Cgroups(base=tree(tmp_path / "cg"))
    made = groups.make("c-1", ContainerLimits())
    assert made is not None
    assert {path.name for path in made.iterdir()} == {"pids.max", "memory.oom.group"}
    assert (made / "pids.max").read_text() == str(MAX_PIDS)


def test_what_has_no_effect_is_said_in_the_tasks_log(tmp_path: Path) -> None:
    place = ContainerDir(tmp_path)
    limits = ContainerLimits(cpus=2, memory_bytes=1, pids=9)
    keys = limited(place, limits, Cgroups(absent="this machine has no cgroup v2"), own_user=False)
    assert keys["cgroup"] is None
    assert place.output.read_text().endswith(
        "WARNING: resources.limits: cpus, pids without effect on this machine: this machine "
        "has no cgroup v2\n"
    )
    assert keys["watched_bytes"] == 1, "its supervisor watches the memory instead"
    place.output.unlink()
    limited(place, ContainerLimits(), Cgroups(), own_user=False)
    assert not place.output.exists()


def test_processes_are_limited_by_user_only_where_the_user_has_one_task() -> None:
    assert task_limits(ContainerLimits(pids=50), own_user=True)["NPROC"] == 50
    assert task_limits(ContainerLimits(pids=50), own_user=False)["NPROC"] > 50


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ("low 0\noom 3\noom_kill 3\n", "it used more memory than its limit of 1.50 GiB"),
        ("low 0\noom 0\noom_kill 0\n", ""),
        (None, ""),
    ],
)
def test_out_of_memory_is_told_apart(events: str | None, message: str, tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    if events is not None:
        (group / "memory.events").write_text(events)
    supervisor = Supervisor(str(tmp_path), None)
    supervisor._reserve_exit_record()
    # A tree of files, unlike a cgroup, is not removed as it is.
    supervisor._leave_cgroup(str(group), 3 * 2**29)
    supervisor._record_exit()
    told = json.loads((tmp_path / "exit.json").read_text())
    assert message in told["message"]
    assert bool(told["message"]) == bool(message)


def test_what_is_left_in_a_group_is_killed(tmp_path: Path) -> None:
    groups = Cgroups(base=tmp_path)
    (tmp_path / "c-1").mkdir()
    (tmp_path / "c-1" / "cgroup.kill").touch()
    groups.end("c-1")
    assert (tmp_path / "c-1" / "cgroup.kill").read_text() == "1"
    groups.end("never-there")


@pytest.mark.skipif(not UNIFIED, reason="needs root, and cgroup v2, with or without controllers")
def test_a_real_group_goes_with_its_processes() -> None:
    group = Path(UNIFIED[0], f"windlass-test-{os.getpid()}")
    group.mkdir()
    tree = "sleep 600 & sleep 600 & wait"
    with subprocess.Popen(["sh", "-c", tree], preexec_fn=lambda: cgroup.enter(str(group))) as top:
        cgroup.end(str(group))
        assert not group.exists()
        assert top.wait() == -signal.SIGKILL


@pytest.mark.skipif(
    os.geteuid() != 0 or not (MOUNT / "cgroup.controllers").exists(),
    reason="needs root, and cgroup v2 with controllers: this machine has version 1, or none",
)
def test_a_real_group_takes_the_limits() -> None:
    groups = find_cgroups()
    assert groups.base is not None, groups.absent
    name = f"test-{os.getpid()}"
    made = groups.make(name, ContainerLimits(cpus=0.5, memory_bytes=64 * 2**20, pids=7))
    assert made is not None
    assert (made / "pids.max").read_text() == "7\n"
    groups.end(name)
    assert not made.exists()
