"""What is read of a site: file systems, accounts and queues, in the words of real ones."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from master.hpc.site.access import accounts_of, closed_partitions, closed_queues
from master.hpc.site.facts import Association
from master.hpc.site.file_systems import look_at, mount_of
from master.hpc.site.gather import system_of
from master.hpc.site.limits import limits_of_qos
from provisioner.batch.pbs.text import QUEUES, documents
from tests.fakes.slurm_commands import PARTITION

TRANSCRIPTS = Path(__file__).parents[2] / "transcripts"
MOUNTS = """\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
30 22 0:40 / /home rw,relatime shared:9 - nfs4 srv:/home rw,vers=4.2,local_lock=none
31 22 0:41 / /work rw,relatime shared:10 - lustre 10.1.1.1@o2ib:/work rw,localflock
32 22 0:42 / /with\\040blank rw - tmpfs tmpfs rw,size=1g
33 22 0:43 / /over rw - ext4 /dev/sdb rw
34 33 0:44 / /over rw - xfs /dev/sdc rw
"""


def said(system: str, file: str, command: str) -> str:
    steps = json.loads((TRANSCRIPTS / system / f"{file}.json").read_text())["steps"]
    return next(str(step["stdout"]) for step in steps if step["command"].startswith(command))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", "nfs4"),
        ("/homework", "ext4"),
        ("/", "ext4"),
        ("/work/me/x", "lustre"),
        ("/with blank/x", "tmpfs"),
        ("/over/x", "xfs"),
    ],
)
def test_the_mount_of_a_path(path: str, kind: str) -> None:
    assert mount_of(path, MOUNTS)[0] == kind


def test_options_that_keep_locks_on_one_machine_are_seen() -> None:
    assert "localflock" in mount_of("/work", MOUNTS)[1]
    assert "local_lock=none" in mount_of("/home", MOUNTS)[1]


def test_a_folder_that_is_not_there_is_tried_by_its_parent_and_not_made(tmp_path: Path) -> None:
    folder = look_at(tmp_path / "a" / "b", "--dir")
    assert folder.is_usable
    assert folder.has_locks
    assert folder.free_bytes
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_others_or_open_to_them_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "mine").mkdir(mode=0o700)
    used = {name: look_at(tmp_path / name, "").is_usable for name in ("open", "link", "mine")}
    assert used == {"open": False, "link": False, "mine": True}


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EDQUOT, "your quota on {} is used up"),
        (errno.ENOSPC, "{}: No space left on device"),
        (errno.EROFS, "{}: Read-only file system"),
    ],
)
def test_a_full_quota_shows_when_something_is_written(
    number: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("master.hpc.site.file_systems.os.fsync", full)
    folder = look_at(tmp_path, "$HOME")
    assert folder.problem == words.format(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Lustre mounted without -o flock."""

    def none(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("master.hpc.site.file_systems.fcntl.flock", none)
    assert not look_at(tmp_path, "$WORK").has_locks


def test_accounts_as_sacctmgr_prints_them() -> None:
    text = "other||normal|5\nresearch||high,normal,scav,tiny|\nresearch|debug|normal|1\n"
    first, *_ = found = accounts_of(text, "research\n")
    assert first == Association(
        name="research", qos=("high", "normal", "scav", "tiny"), is_default=True
    )
    assert [(one.name, one.partition, one.max_submit) for one in found] == [
        ("research", "", None),
        ("research", "debug", 1),
        ("other", "", 5),
    ]
    assert accounts_of("", "") == ()


def test_limits_of_accounts_and_qos_in_words() -> None:
    (account,) = accounts_of("ml||normal,tiny|500|4|gres/gpu=8|node=2|1-00:00:00\n", "ml")
    assert account.limits == (
        "500 jobs that wait or run",
        "4 running jobs",
        "gres/gpu=8 for all of its jobs",
        "node=2 for one job",
        "1-00:00:00 for one job",
    )
    assert limits_of_qos("normal||||||\ntiny|2|1|gres/gpu=2|||00:05:00\n\n") == {
        "tiny": (
            "2 jobs of a user that wait or run",
            "1 running jobs of a user",
            "gres/gpu=2 for a user",
            "00:05:00 for one job",
        )
    }


@pytest.mark.parametrize(
    ("change", "groups", "why"),
    [
        (("AllowGroups=ALL", "AllowGroups=staff,ops"), ["me"], "it is for the groups ops, staff"),
        (("AllowGroups=ALL", "AllowGroups=staff"), ["staff"], None),
        (("AllowAccounts=ALL", "AllowAccounts=biology"), [], "it is for the accounts biology"),
        (("AllowAccounts=ALL", "DenyAccounts=physics"), [], "it refuses the accounts physics"),
        (("AllowAccounts=ALL", "DenyAccounts=other"), [], None),
        (("Hidden=NO", "Hidden=NO RootOnly=YES"), [], "it is for root alone"),
        (("", ""), [], None),
    ],
)
def test_partitions_that_do_not_take_our_jobs(
    change: tuple[str, str], groups: list[str], why: str | None
) -> None:
    closed = closed_partitions(
        PARTITION.replace(*change) if change[0] else PARTITION,
        groups=groups,
        accounts=[Association(name="physics")],
        is_root=False,
    )
    assert closed.get("gpu") == why


def test_queues_that_do_not_take_our_jobs() -> None:
    queues = documents(said("pbs", "queues", "qstat -Q -f -F json"), QUEUES)
    assert queues
    assert closed_queues(queues, user="alice", groups=["alice"]).keys() <= queues.keys()
    own = {
        "users": {"acl_user_enable": "True", "acl_users": "bob@*,alice@*"},
        "not_me": {"acl_user_enable": "True", "acl_users": "bob,-alice"},
        "groups": {"acl_group_enable": "True", "acl_groups": "physics"},
        "routed": {"from_route_only": "True"},
        "off": {"acl_user_enable": "False", "acl_users": "bob"},
    }
    closed = closed_queues(own, user="alice", groups=["biology"])
    assert closed.keys() == {"not_me", "groups", "routed"}


@pytest.mark.parametrize(
    ("programs", "system"),
    [
        ({"a": ["sbatch", "qsub"]}, "slurm"),
        ({"a": ["qsub"], "b": ["sbatch", "qsub"]}, "pbs"),
        ({"a": ["squeue"]}, ""),
    ],
)
def test_the_batch_system_that_comes_first_on_path_counts(
    programs: dict[str, list[str]], system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm may have a qsub of its own."""
    for folder, names in programs.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch(mode=0o755)
    monkeypatch.setattr("master.hpc.site.gather.PLACES", "")
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / folder) for folder in programs))
    assert system_of("") == system
