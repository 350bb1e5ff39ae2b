"""What `windlass master ...` says of certificates, without a master that runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from master.checks.security import check_certificate, check_listening
from master.cli import app
from master.config import load
from master.tls.opening import open_warnings
from tests.certificates import DAY, self_signed
from windlass.base.checks import Check, CheckStatus
from windlass.base.tls.fingerprints import parse_fingerprint


def _run(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        ({"cert": "cert"}, "key is missing: name both files, or neither"),
        ({"key": "key"}, "cert is missing: name both files, or neither"),
        ({"cert": "cert", "key": "other.key"}, "is not the key of the certificate in"),
        ({"cert": "cert", "key": "/nowhere"}, "security.tls.key: cannot read /nowhere: No such"),
        ({"cert": "cert", "key": "key", "ca": "/nowhere"}, "security.tls.ca: cannot read /nowhere"),
    ],
)
def test_a_master_that_does_not_start(tmp_path: Path, tls: dict[str, str], words: str) -> None:
    issued, other = self_signed(tmp_path), self_signed(tmp_path, "other")
    files = {"cert": str(issued.cert), "key": str(issued.key), "other.key": str(other.key)}
    section = {key: files.get(value, value) for key, value in tls.items()}
    config = tmp_path / "master.yaml"
    config.write_text(yaml.safe_dump({"security": {"tls": section}}))
    code, _, said = _run("run", "-c", config, "--data-dir", tmp_path / "data")
    assert code == 1
    assert said.splitlines()[-1].startswith("error: ")
    assert words in said


def test_the_fingerprint_is_that_of_what_signs(tmp_path: Path) -> None:
    config = tmp_path / "master.yaml"
    config.write_text("security: {tls: {self_signed: true}}")
    where = ("-c", config, "--data-dir", tmp_path / "data")
    code, _, said = _run("certificate", *where)
    assert code == 1
    assert "start the master, or give --make" in said
    code, made, about = _run("certificate", *where, "--make")
    assert code == 0
    assert parse_fingerprint(made) == made.strip()
    assert "localhost" in about
    (tmp_path / "data" / "tls" / "master.pem").unlink()
    assert _run("certificate", *where, "--make")[1] == made
    pem = _run("certificate", *where, "--pem")[1]
    assert pem.count("BEGIN CERTIFICATE") == 2
    assert "PRIVATE" not in pem


def test_without_one_it_says_how_to_get_one(tmp_path: Path) -> None:
    config = tmp_path / "master.yaml"
    config.write_text("{}")
    code, _, said = _run("certificate", "-c", config, "--data-dir", tmp_path)
    assert code == 1
    assert (
        "set security.tls.cert and .key in master.yaml, or security.tls.self_signed: true" in said
    )


@pytest.mark.parametrize(
    ("keys", "warned"),
    [
        ({}, False),
        ({"host": "10.0.0.7"}, True),
        ({"host": "10.0.0.5"}, True),
        ({"host": "10.0.0.7", "security.tls.self_signed": True}, False),
        ({"host": "10.0.0.7", "security.trusted_proxies": ["10.0.0.1"]}, False),
    ],
)
def test_a_master_that_others_reach_without_tls_warns(
    keys: dict[str, object], warned: bool
) -> None:
    config = load(None, overrides=keys)
    warnings = open_warnings(config)
    assert len(warnings) == warned
    assert all("without TLS" in warning for warning in warnings)
    assert (check_listening(config).status is CheckStatus.WARNING) == warned


def test_doctor_says_how_long_it_is_good(tmp_path: Path) -> None:
    issued = self_signed(tmp_path)
    keys = {"security.tls.cert": str(issued.cert), "security.tls.key": str(issued.key)}
    config, now = load(None, overrides=keys), datetime.now(UTC)

    def look(later: int = 0) -> Check:
        (check,) = check_certificate(config, tmp_path, now + later * DAY)
        return check

    assert look().status is CheckStatus.OK
    assert look().found.startswith("good until ")
    assert look(90).status is CheckStatus.WARNING
    assert look(101).status is CheckStatus.FAILED
    issued.key.chmod(0o644)
    assert look().advice == f"chmod o-rwx {issued.key}"
    assert list(check_certificate(load(None), tmp_path, now)) == []
