"""`api` of a provider of type slurm: slurmrestd."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from master.checks.site import site_checks
from master.config import MasterConfig, load
from master.wiring.batch.pools import dispatch_options, site_of
from provisioner.batch.slurm.pyslurm.system import PyslurmSystem
from provisioner.batch.slurm.rest.system import RestSystem
from windlass.base.checks import Check, CheckStatus
from windlass.base.errors import InvalidConfig

TOKEN = {"user": "alice", "token_file": "/run/token"}


def loaded(tmp_path: Path, api: dict[str, Any] | None, **keys: Any) -> MasterConfig:
    provider = {"type": "slurm", "partition": "gpu", "api": api, **keys}
    file = tmp_path / "master.yaml"
    file.write_text(yaml.safe_dump({"resource_pools": [{"pool_name": "g", "provider": provider}]}))
    return load(file)


@pytest.mark.parametrize(
    "api",
    [
        {"url": "http://127.0.0.1:6820", **TOKEN},
        {"url": "https://slurm.example.org", "user": "a", "token_command": ["scontrol", "token"]},
        {"url": "http://node.example.org:6820", "plain_http": True, **TOKEN},
        {"url": "unix:/run/slurmrestd.s"},
        {"url": "inetd:"},
        {"url": "inetd:/opt/slurm/sbin/slurmrestd"},
    ],
)
def test_ways_to_slurmrestd(tmp_path: Path, api: dict[str, Any]) -> None:
    (pool,) = [one for one in loaded(tmp_path, api).pools() if one.batch is not None]
    assert pool.batch is not None
    assert isinstance(site_of([pool.batch]).system, RestSystem)
    assert dispatch_options(pool).section.also_refused(["--mail-user=a"])


@pytest.mark.parametrize(
    ("api", "problem"),
    [
        ({"url": "ftp://a"}, '"ftp://a" is none of http://HOST:PORT'),
        ({"url": "unix:run"}, '"unix:run" is none of'),
        ({"url": "http://h:1/slurm", **TOKEN}, "is none of http://HOST:PORT"),
        ({"url": "https://h"}, "token_file or token_command is required"),
        ({"url": "https://h", "token_file": "/t"}, "user is required with a token"),
        ({"url": "https://h", "token_command": ["x"], **TOKEN}, "token_file or token_command, not"),
        ({"url": "https://h", "user": "a", "token_file": "t"}, '"t" is not an absolute path'),
        ({"url": "inetd:", **TOKEN}, "remove user and tokens"),
        ({"url": "pyslurm:", **TOKEN}, "remove user and tokens"),
        ({"url": "http://h:6820", **TOKEN}, "would cross the network in plain text"),
    ],
)
def test_what_api_may_not_say(tmp_path: Path, api: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        loaded(tmp_path, api)
    (line,) = caught.value.problems
    assert problem in line
    assert "api" in line


def test_arguments_that_slurmrestd_does_not_take_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"--mail-user=me.*no field"):
        loaded(tmp_path, {"url": "inetd:"}, sbatch_args=["--mail-user=me"])


def test_a_socket_of_the_login_node_is_not_reached_over_ssh(tmp_path: Path) -> None:
    keys = {"ssh": {"host": "login"}, "job_storage_root": "/shared", "python": "/p"}
    with pytest.raises(InvalidConfig, match="use inetd:, or http"):
        loaded(tmp_path, {"url": "unix:/run/s"}, **keys)


def test_pyslurm_lists_jobs_and_commands_do_the_rest(tmp_path: Path) -> None:
    (pool,) = [
        one for one in loaded(tmp_path, {"url": "pyslurm:"}).pools() if one.batch is not None
    ]
    assert pool.batch is not None
    assert isinstance(site_of([pool.batch]).system, PyslurmSystem)
    assert not dispatch_options(pool).section.also_refused(["--mail-user=a"])


@pytest.mark.parametrize(
    "api", [{"url": "http://127.0.0.1:1", **TOKEN}, {"url": "unix:/s"}, {"url": "pyslurm:"}]
)
def test_with_impersonate_each_user_needs_a_token_of_their_own(
    tmp_path: Path, api: dict[str, Any]
) -> None:
    with pytest.raises(InvalidConfig, match="give token_command, or url: inetd:"):
        loaded(tmp_path, api, impersonate="sudo", job_storage_root="/shared")


@pytest.mark.parametrize(
    "api", [{"url": "inetd:"}, {"url": "unix:/s", "user": "a", "token_command": ["mint"]}]
)
def test_with_impersonate_users_have_a_system_of_their_own(
    tmp_path: Path, api: dict[str, Any]
) -> None:
    config = loaded(tmp_path, api, impersonate="sudo", job_storage_root="/shared")
    (pool,) = [one for one in config.pools() if one.batch is not None]
    assert pool.batch is not None
    users = site_of([pool.batch]).users
    assert users is not None
    assert isinstance(users.system("alice"), RestSystem)


def test_pbs_has_none(tmp_path: Path) -> None:
    file = tmp_path / "master.yaml"
    provider = {"type": "pbs", "api": {"url": "inetd:"}}
    file.write_text(yaml.safe_dump({"resource_pools": [{"pool_name": "g", "provider": provider}]}))
    with pytest.raises(InvalidConfig, match="PBS has no REST server"):
        load(file)
    file.write_text(yaml.safe_dump({"resource_manager": provider}))
    with pytest.raises(InvalidConfig, match="PBS has no REST server"):
        load(file)


def test_the_doctor_says_why_it_does_not_answer(tmp_path: Path) -> None:
    api = {"url": f"unix:{tmp_path}/none.s"}
    (check,) = asked(tmp_path, api)
    assert check.status is CheckStatus.FAILED
    assert f"{tmp_path}/none.s cannot be reached" in check.found
    api = {"url": "http://127.0.0.1:9", "user": "a", "token_file": f"{tmp_path}/none"}
    (check,) = asked(tmp_path, api)
    assert "token_file" in check.found
    assert asked(tmp_path, None) == []


def asked(tmp_path: Path, api: dict[str, Any] | None) -> list[Check]:
    """What is said of slurmrestd."""
    found = asyncio.run(site_checks(loaded(tmp_path, api)))
    return [check for check in found if check.name == "slurmrestd"]
