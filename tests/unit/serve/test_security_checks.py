"""What `windlass doctor` says of a master's security: each row in its good and its bad case."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from typer.testing import CliRunner

from master.auth.passwords import client_hash
from master.checks import security as doctor
from master.checks.doctor import checks
from master.config import MasterConfig, load
from windlass.base.checks import Check, CheckStatus
from windlass.cli.main import app
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.options import ClusterRecord, Options

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
OK, WARNING, FAILED = CheckStatus.OK, CheckStatus.WARNING, CheckStatus.FAILED


def config(**overrides: Any) -> MasterConfig:
    return load(None, overrides={key.replace("__", "."): v for key, v in overrides.items()})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a master whose determined has changed the first password, and whose admin has not."""
    folder = tmp_path / "master"
    folder.mkdir(mode=0o700)
    for name, text in (("secret", "00"), ("initial-password", "First1234\n")):
        (folder / name).touch(0o600)
        (folder / name).write_text(text)
    with closing(sqlite3.connect(folder / "windlass.db")) as database:
        database.execute("CREATE TABLE user (id, username, password_hash)")
        rows = [
            (1, "admin", CHEAP.hash(client_hash("First1234"))),
            (2, "determined", CHEAP.hash(client_hash("another"))),
        ]
        database.executemany("INSERT INTO user VALUES (?, ?, ?)", rows)
        database.commit()
    (folder / "windlass.db").chmod(0o600)
    return folder


def test_pages_of_tasks_are_apart_from_the_masters() -> None:
    assert doctor.check_task_pages(config()).status is OK
    wide = {"host": "0.0.0.0"}  # noqa: S104
    check = doctor.check_task_pages(config(**wide))
    assert check.status is WARNING
    assert doctor.task_page_warnings(config(**wide)) == [f"{check.found}; {check.advice}"]
    apart = config(**wide, webui__task_origin="https://tasks.example.org")
    assert doctor.check_task_pages(apart).status is OK
    assert doctor.task_page_warnings(apart) == []


def test_private_files_are_private(folder: Path) -> None:
    assert doctor.check_modes(folder).status is OK
    folder.chmod(0o750)
    assert doctor.check_modes(folder).advice == f"chmod 700 {folder}"
    for name in ("secret", "windlass.db", "initial-password"):
        (folder / name).chmod(0o604)
        check = doctor.check_modes(folder)
        assert (check.status, check.advice) == (FAILED, f"chmod 600 {folder / name}")
        (folder / name).chmod(0o600)
    file = folder / "master.yaml"
    file.touch(0o644)
    assert doctor.check_config_file(file).status is FAILED
    file.chmod(0o600)
    assert doctor.check_config_file(file).status is OK


def test_agents_as_the_masters_own_user_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = folder.stat().st_uid
    assert doctor.check_agents(folder, [(7, owner + 1)]).status is OK
    assert doctor.check_agents(folder, []).found == "none"
    assert doctor.check_owner(folder).status is (WARNING if owner == 0 else OK)
    ours = os.stat_result((0o700, 0, 0, 1, 1000, 0, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "stat", lambda *_, **__: ours)
    assert doctor.check_owner(folder).status is OK
    assert doctor.check_agents(folder, [(7, 1000), (8, 0)]).status is WARNING


def test_passwords_that_everybody_could_know_are_told(folder: Path) -> None:
    empty, first = doctor.check_passwords(folder, config())
    assert (empty.status, first.status) == (OK, WARNING)
    assert (first.found, first.advice) == (
        "still in use by admin",
        "det -u admin user change-password",
    )
    empty, first = doctor.check_passwords(folder, config(security__allow_empty_password=True))
    assert empty.status is WARNING
    given = config(security__initial_user_password="another")
    assert "determined" in list(doctor.check_passwords(folder, given))[1].found
    (folder / "initial-password").unlink()
    gone = list(doctor.check_passwords(folder, config()))[1]
    assert (gone.status, "there is no" in gone.found) == (OK, True)
    elsewhere = config(db__url="postgresql+asyncpg://h/d")
    assert "not looked at" in list(doctor.check_passwords(folder, elsewhere))[1].found


@pytest.mark.parametrize(
    ("check", "good", "bad", "status"),
    [
        (lambda v: doctor.check_listening(config(host=v)), "127.0.0.1", "::", WARNING),
        (lambda v: doctor.check_proxies([v]), "10.0.0.0/24", "10.0.0.0/8", WARNING),
        (lambda v: doctor.check_proxies([v]), "2001:db8::/64", "::/0", FAILED),
        (lambda v: doctor.check_hosts([v]), ".lab.example.org", ".org", FAILED),
        (lambda v: doctor.check_hosts([v]), "windlass", "*", FAILED),
        (
            lambda v: doctor.check_others_work(config(security__authz__others_work=v)),
            "owner",
            "any",
            WARNING,
        ),
        (doctor.check_files_limit, 65536, 1024, WARNING),
        (doctor.check_files_limit, -1, 4096, WARNING),
    ],
)
def test_what_is_too_wide_is_told(
    check: Callable[[Any], Check], good: Any, bad: Any, status: CheckStatus
) -> None:
    assert check(good).status is OK
    found = check(bad)
    assert found.status is status
    assert found.advice
    assert str(bad) in found.found or bad == "any"


def test_an_open_address_behind_a_named_proxy_is_fine() -> None:
    behind = config(host="::", security__trusted_proxies=["10.0.0.5"])
    assert doctor.check_listening(behind).status is OK


def test_an_old_backup_is_told(folder: Path) -> None:
    now = datetime(2026, 3, 10, tzinfo=UTC)
    none = doctor.check_backup(folder, now)
    assert none.status is WARNING
    assert f"--data-dir {folder}," in none.advice
    for day, status in ((9, OK), (1, WARNING)):
        made = datetime(2026, 3, day, tzinfo=UTC).isoformat()
        (folder / "last-backup.json").write_text(json.dumps({"path": "/b", "made_at": made}))
        check = doctor.check_backup(folder, now)
        assert check.status is status
        assert f"{10 - day} days old" in check.found


def test_the_table_is_of_the_folder_that_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WINDLASS_DATA_DIR", "DET_CONFIG_FILE"):
        monkeypatch.setenv(name, "/none")  # options win, and what they set is undone after the test
    file = tmp_path / "master.yaml"
    file.touch(0o600)
    file.write_text("host: 0.0.0.0\n")
    options = ("--offline", "--data-dir", str(folder), "--config-file", str(file))
    result = CliRunner().invoke(app, ["doctor", *options, "--json"])
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["master: listening"]["status"] == "warning"
    assert rows["master: private files"]["status"] == "ok"
    assert "login" not in rows
    assert all(row["advice"] for row in rows.values() if row["status"] != "ok")
    (folder / "secret").chmod(0o644)
    table = CliRunner().invoke(app, ["doctor", *options])
    assert table.exit_code == 1
    assert f"chmod 600 {folder / 'secret'}" in table.stdout


def test_of_a_local_cluster_the_options_of_its_start_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_DATA_DIR", str(folder))
    monkeypatch.delenv("DET_CONFIG_FILE", raising=False)
    cluster = ClusterFolder(folder.parent)
    cluster.master_yaml.touch(0o600)
    options = Options(host="0.0.0.0", port=8090)  # noqa: S104
    ClusterRecord(url="http://127.0.0.1:8090", options=options).write(cluster)
    listening = next(c for c in checks() if c.name.endswith("listening"))
    assert listening.status is WARNING
    assert listening.found.startswith("0.0.0.0 port 8090 without TLS")
    cluster.master_yaml.write_text("security: {tls: {self_signed: true}}\n")
    listening = next(c for c in checks() if c.name.endswith("listening"))
    assert listening.found == "0.0.0.0 port 8090 with TLS"


def test_a_broken_master_yaml_and_an_unused_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "master.yaml"
    file.write_text("bogus: 1")
    monkeypatch.setenv("WINDLASS_DATA_DIR", str(folder))
    monkeypatch.setenv("DET_CONFIG_FILE", str(file))
    _, broken = checks()
    assert (broken.name, broken.status) == ("master: master.yaml", FAILED)
    monkeypatch.setenv("WINDLASS_DATA_DIR", str(tmp_path / "new"))
    unused, broken = checks()
    assert (unused.status, broken.status) == (OK, FAILED)
    monkeypatch.delenv("DET_CONFIG_FILE")
    (unused,) = checks()
    assert unused.status is OK
