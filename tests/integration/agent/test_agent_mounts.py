"""The mounts of a task as the agent checks them, on the machine where they are made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.mounts import checked_mounts
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import ContainerOptions, OsUser
from agent_bootstrap.protocol import Bind, ContainerSpec

ROOT = OsUser()
ALICE = OsUser(uid=41001, gid=41001, user="alice", group="alice")
OWN = HostPaths(file="agent.yaml")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


def mounts(
    *sources: Path | str,
    own: HostPaths = OWN,
    master: HostPaths | None = None,
    agent: OsUser = ALICE,
    task: OsUser = ALICE,
    target: str = "/data",
) -> list[str]:
    spec = ContainerSpec(
        container_id="c",
        allocation_id="a",
        task_id="t",
        task_type="COMMAND",
        entrypoint=("true",),
        environment={},
        binds=tuple(Bind(source=str(source), target=target) for source in sources),
        options=ContainerOptions(host_paths=master or HostPaths()),
    )
    return [bind.source for bind in checked_mounts(spec, own, agent=agent, task=task)]


def test_what_was_checked_is_what_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert mounts(tmp_path / "link") == [str((tmp_path / "real").resolve())]


def test_a_link_that_changed_since_submission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(StartRefused, match=r"host_path .*/link \(a link to /\) is the whole"):
        mounts(tmp_path / "link")


def test_the_agents_folder_is_refused_besides_the_masters(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "master").mkdir()
    own = HostPaths(forbidden=(str(tmp_path / "agent"),))
    master = HostPaths(forbidden=(str(tmp_path / "master"),))
    for path in (tmp_path / "agent", tmp_path / "master", tmp_path):
        with pytest.raises(StartRefused, match="a folder of Windlass itself"):
            mounts(path, own=own, master=master)


def test_the_stricter_list_wins(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    only_a = HostPaths(file="agent.yaml", allowed=(str(tmp_path / "a"),))
    both = HostPaths(allowed=(str(tmp_path),))
    assert mounts(tmp_path / "a", own=only_a, master=both) == [str((tmp_path / "a").resolve())]
    with pytest.raises(StartRefused, match=r"is not in allowed_host_paths of agent\.yaml"):
        mounts(tmp_path / "b", own=only_a, master=both)
    with pytest.raises(StartRefused, match=r"is not in allowed_host_paths of master\.yaml"):
        mounts(tmp_path / "b", own=both, master=only_a.model_copy(update={"file": "master.yaml"}))


def test_an_agent_without_a_list_leaves_root_tasks_to_the_masters(tmp_path: Path) -> None:
    allowed = HostPaths(allowed=(str(tmp_path),))
    assert mounts(tmp_path, master=allowed, agent=ROOT, task=ROOT)
    with pytest.raises(StartRefused, match="by a task that runs as root"):
        mounts(tmp_path, agent=ROOT, task=ROOT)


def test_a_path_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="does not exist on this machine"):
        mounts(tmp_path / "nothing")


@pytest.mark.parametrize("target", ["/", "//", "data", "/a/.."])
def test_a_target_must_be_a_path_of_the_container(tmp_path: Path, target: str) -> None:
    with pytest.raises(StartRefused, match="not a usable container path"):
        mounts(tmp_path, target=target)


@needs_root
def test_a_mount_shows_nothing_that_its_user_could_not_reach(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "open").mkdir(parents=True)
    private.chmod(0o700)
    with pytest.raises(StartRefused, match=r"is not accessible to alice \(41001\)"):
        mounts("/usr", private / "open", agent=ROOT)
    assert mounts("/usr", agent=ROOT) == [str(Path("/usr").resolve())]


@needs_root
def test_but_for_what_the_cluster_itself_mounts(tmp_path: Path) -> None:
    storage = tmp_path / "private" / "checkpoints"
    storage.mkdir(parents=True)
    storage.parent.chmod(0o700)
    cluster = HostPaths(cluster=(str(storage),), forbidden=(str(storage.parent),))
    assert mounts(storage, master=cluster, agent=ROOT)
