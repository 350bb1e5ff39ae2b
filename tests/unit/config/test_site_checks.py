"""What `windlass doctor` says of the folder in which the users of a site make theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from master.checks.doctor import checks
from master.checks.site import site_checks
from master.config import load
from windlass.base.checks import Check, CheckStatus

SHARED = {"type": "shared_fs", "host_path": "/shared/checkpoints"}


def checked(tmp_path: Path, text: Mapping[str, object]) -> list[Check]:
    file = tmp_path / "master.yaml"
    file.write_text(yaml.safe_dump({"checkpoint_storage": SHARED, **text}))
    return asyncio.run(site_checks(load(file)))


def pools(*sections: dict[str, object]) -> dict[str, object]:
    provider = {"type": "slurm", "python": "/p"}
    named = enumerate(sections)
    return {
        "resource_pools": [{"pool_name": f"p{i}", "provider": provider | one} for i, one in named]
    }


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        (None, "No such file or directory"),
        (0o1755, "has mode 1755: not all users can make a folder there"),
        (0o700, "has mode 700: not all users can make a folder there"),
        (0o777, "has mode 777, without the sticky bit: users may remove each other's folders"),
    ],
)
def test_a_folder_that_is_not_for_all_users_is_told(
    mode: int | None, told: str, tmp_path: Path
) -> None:
    root = tmp_path / "jobs"
    if mode is not None:
        root.mkdir()
        root.chmod(mode)
    user = {"impersonate": "sudo", "job_storage_root": str(root)}
    (check,) = checked(tmp_path, pools(user, user))
    assert check.status is CheckStatus.WARNING
    assert check.found.startswith(str(root))
    assert check.found.endswith(told)
    assert f"install -d -m 1777 {root}" in check.advice


def test_a_file_is_no_folder_for_them(tmp_path: Path) -> None:
    (root := tmp_path / "jobs").touch()
    manager = {"type": "slurm", "impersonate": "sudo", "job_storage_root": str(root)}
    (check,) = checked(tmp_path, {"resource_manager": manager})
    assert (check.status, check.found) == (CheckStatus.WARNING, f"{root} is not a directory")


@pytest.mark.parametrize("mode", [0o1777, 0o3777])
def test_one_that_is_for_all_users_is_right(mode: int, tmp_path: Path) -> None:
    (root := tmp_path / "jobs").mkdir()
    root.chmod(mode)
    (check,) = checked(tmp_path, pools({"impersonate": "sudo", "job_storage_root": str(root)}))
    assert (check.status, check.advice) == (CheckStatus.OK, "")


@pytest.mark.parametrize(
    ("text", "unset"),
    [
        ({"checkpoint_storage": None, **pools({"job_storage_root": "/j"})}, "checkpoint_storage"),
        (pools({}), "job_storage_root"),
        ({"resource_manager": {"type": "slurm"}}, "job_storage_root"),
    ],
)
def test_folders_that_nodes_might_not_see_are_told(
    text: Mapping[str, object], unset: str, tmp_path: Path
) -> None:
    """Both are in the data folder of the master if nobody says otherwise."""
    (check,) = checked(tmp_path, text)
    assert (check.name, check.status) == (unset, CheckStatus.WARNING)
    assert "data folder of the master, which nodes then must see" in check.found
    assert "a folder on a file system that all nodes share" in check.advice


def test_a_master_without_a_site_needs_no_such_folder(tmp_path: Path) -> None:
    assert checked(tmp_path, {"checkpoint_storage": None}) == []


def test_that_of_a_master_alone_is_private(tmp_path: Path) -> None:
    assert checked(tmp_path, pools({"job_storage_root": str(tmp_path / "none")})) == []


def test_the_doctor_looks_at_a_file_that_it_is_given_before_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_DATA_DIR", str(tmp_path / "unused"))
    file = tmp_path / "master.yaml"
    monkeypatch.setenv("DET_CONFIG_FILE", str(file))
    file.write_text(yaml.safe_dump(pools({"job_storage_root": "/j"})))
    assert [check.name for check in checks()] == ["master: data folder", "checkpoint_storage"]
    file.write_text("resource_pool: []\n")
    (_, wrong) = checks()
    assert (wrong.name, wrong.status) == ("master: master.yaml", CheckStatus.FAILED)
    monkeypatch.delenv("DET_CONFIG_FILE")
    assert [check.name for check in checks()] == ["master: data folder"]


def test_pyslurm_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Commands are used instead: no failure."""
    if find_spec("pyslurm") is not None:
        pytest.skip("pyslurm is installed here")
    section = {"api": {"url": "pyslurm:"}, "job_storage_root": "/j"}
    (check,) = checked(tmp_path, pools(section))
    assert (check.name, check.status) == ("pyslurm", CheckStatus.WARNING)
    assert "commands of Slurm are used: it cannot be imported: No module named" in check.found
    assert check.advice.endswith("docs/hpc/rest.md#pyslurm")
