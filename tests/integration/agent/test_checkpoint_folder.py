"""A checkpoint storage that tasks of many users share: made by a root agent, never wider than it must be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_bootstrap.agent.containers.checkpoint_folder import prepare_checkpoints
from agent_bootstrap.agent.identity import UNPRIVILEGED, own_identity
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import CheckpointFolder, OsUser
from tests.jails import open_way_to

ROOT = OsUser()
ALICE = OsUser(uid=41001, gid=41001, user="alice", group="alice")
BOB = OsUser(uid=41002, gid=41002, user="bob", group="bob")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that others can reach: pytest's own are private."""
    return open_way_to(tmp_path / "storage")


def prepare(host_path: Path, task: OsUser, *, trial: int = 1, below: str = "") -> None:
    prepare_checkpoints(
        CheckpointFolder(host_path=str(host_path), below=below, experiment_id=1, trial_id=trial),
        HostPaths(cluster=(str(host_path),)),
        cluster_id="cluster",
        agent=own_identity(),
        task=task,
    )


def as_user(who: OsUser, *command: str | Path) -> int:
    return subprocess.run(
        [str(word) for word in command],
        user=who.uid,
        group=who.gid,
        extra_groups=[],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@needs_root
@pytest.mark.parametrize("below", ["", "a/b", "a/../b"])
def test_each_user_writes_checkpoints_and_nobody_removes_anothers(shared: Path, below: str) -> None:
    prepare(shared, ALICE, below=below)
    prepare(shared, BOB, below=below)
    folder = shared / below
    assert mode(folder.resolve()) == 0o1777
    assert as_user(ALICE, "mkdir", folder / "one") == 0
    assert as_user(ALICE, "touch", folder / "one" / "state") == 0
    assert as_user(BOB, "cat", folder / "one" / "state") == 0
    assert as_user(BOB, "touch", folder / "one" / "more") != 0
    assert as_user(BOB, "rm", "-rf", folder / "one") != 0
    assert as_user(BOB, "mv", folder / "one", folder / "two") != 0
    assert as_user(BOB, "mkdir", folder / "two") == 0


@needs_root
def test_tensorboard_files_have_a_folder_of_the_trials_own(shared: Path) -> None:
    prepare(shared, ALICE)
    prepare(shared, BOB, trial=2)  # another user goes on with the experiment
    top = shared / "cluster" / "tensorboard" / "experiment"
    trial = top / "1" / "trial" / "2"
    assert as_user(BOB, "touch", trial / "events") == 0
    assert as_user(ALICE, "touch", trial / "more") != 0
    assert as_user(ALICE, "mkdir", top / "7") != 0
    assert as_user(ALICE, "mv", shared / "cluster", shared / "gone") != 0


@needs_root
def test_a_run_as_another_user_goes_on_with_what_root_wrote(shared: Path) -> None:
    prepare(shared, ALICE)
    trial = shared / "cluster/tensorboard/experiment/1/trial/1"
    for folder in (trial, trial.parent, trial.parent.parent):
        os.chown(folder, 0, 0)
    (trial / "events").write_text("by root")
    prepare(shared, ALICE)
    assert as_user(ALICE, "touch", trial / "events.2") == 0
    assert (trial / "events").stat().st_uid == 0


@needs_root
@pytest.mark.parametrize("first", ["cluster", "cluster/tensorboard"])
def test_a_tensorboard_folder_that_a_user_made_is_not_used(shared: Path, first: str) -> None:
    (shared / first).mkdir(parents=True)
    os.chown(shared / first, BOB.uid, BOB.gid)
    shared.chmod(0o1777)
    with pytest.raises(StartRefused, match=f"{shared}/cluster belongs to uid {BOB.uid}.*chown"):
        prepare(shared, ALICE)
    os.chown(shared / first, 0, 0)
    prepare(shared, ALICE)
    assert (shared / "cluster/tensorboard/experiment/1/trial/1").stat().st_uid == ALICE.uid


@needs_root
def test_links_in_the_storage_lead_nowhere(shared: Path, tmp_path: Path) -> None:
    prepare(shared, ALICE)
    target = tmp_path / "target"
    target.mkdir()
    trial = shared / "cluster/tensorboard/experiment/1/trial"
    (trial / "1").rmdir()
    (trial / "1").symlink_to(target)
    (shared / "below").symlink_to(target)
    prepare(shared, ALICE)
    assert target.stat().st_uid == 0
    with pytest.raises(OSError, match="below"):
        prepare(shared, ALICE, below="below/x")
    assert not list(target.iterdir())


@needs_root
def test_a_storage_that_exists_keeps_its_permissions(shared: Path) -> None:
    shared.mkdir()
    os.chown(shared, ALICE.uid, ALICE.gid)
    shared.chmod(0o750)
    prepare(shared, ALICE)
    assert (mode(shared), shared.stat().st_uid) == (0o750, ALICE.uid)
    with pytest.raises(StartRefused, match=r"is not writable for bob \(41002\).*chmod 1777"):
        prepare(shared, BOB)
    assert mode(shared) == 0o750


@needs_root
def test_in_a_private_folder_of_root_the_mount_alone_gives_access(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    prepare(private / "checkpoints", UNPRIVILEGED)
    assert mode(private / "checkpoints") == 0o1777
    assert mode(private) == 0o700


@needs_root
def test_what_a_user_names_is_made_as_that_user_could(shared: Path) -> None:
    shared.mkdir()
    os.chown(shared, ALICE.uid, ALICE.gid)
    folder = CheckpointFolder(host_path=str(shared / "mine"), experiment_id=1, trial_id=1)

    def go(task: OsUser) -> None:
        prepare_checkpoints(folder, HostPaths(), cluster_id="c", agent=ROOT, task=task)

    with pytest.raises(StartRefused, match=r"is no folder that bob \(41002\) could make"):
        go(BOB)
    go(ALICE)
    assert (shared / "mine").stat().st_uid == ALICE.uid


@needs_root
def test_in_the_shared_storage_too_only_the_storage_itself_is_made_as_root(shared: Path) -> None:
    """Whoever owns a folder in it may put a link in the way at any time."""
    prepare(shared, ALICE)
    assert as_user(ALICE, "mkdir", shared / "mine") == 0
    rules = HostPaths(cluster=(str(shared),))
    own = CheckpointFolder(host_path=str(shared / "mine" / "x"), experiment_id=1, trial_id=1)
    prepare_checkpoints(own, rules, cluster_id="c", agent=own_identity(), task=ALICE)
    made = (shared / "mine" / "x").stat()
    assert (made.st_uid, made.st_mode & 0o1000) == (ALICE.uid, 0)
    with pytest.raises(StartRefused, match="bob"):
        prepare_checkpoints(
            own.model_copy(update={"host_path": str(shared / "mine" / "y")}),
            rules,
            cluster_id="c",
            agent=own_identity(),
            task=BOB,
        )


def test_an_agent_that_is_not_root_makes_what_is_missing(tmp_path: Path) -> None:
    me = ALICE
    folder = CheckpointFolder(host_path=str(tmp_path / "a"), below="b", experiment_id=1, trial_id=1)
    prepare_checkpoints(folder, HostPaths(), cluster_id="c", agent=me, task=me)
    assert (tmp_path / "a" / "b").is_dir()


def test_an_agent_that_is_not_root_says_what_it_cannot_make(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    folder = CheckpointFolder(host_path=str(tmp_path / "a"), below="b", experiment_id=1, trial_id=1)
    with pytest.raises(StartRefused, match=r"checkpoint storage .*/a/b cannot be made: Not a dir"):
        prepare_checkpoints(folder, HostPaths(), cluster_id="c", agent=ALICE, task=ALICE)


def test_what_may_not_be_mounted_is_not_made(tmp_path: Path) -> None:
    folder = CheckpointFolder(host_path=str(tmp_path / "a"), experiment_id=1, trial_id=1)
    rules = HostPaths(forbidden=(str(tmp_path),))
    with pytest.raises(StartRefused, match=r"checkpoint_storage: host_path .* would show"):
        prepare_checkpoints(folder, rules, cluster_id="c", agent=ALICE, task=ALICE)
    assert not (tmp_path / "a").exists()
