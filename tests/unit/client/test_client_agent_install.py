"""`windlass agent install`: what it does with the join token that it makes for the machines."""

from __future__ import annotations

import json

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner

from windlass.cli.main import app
from windlass.install import steps
from windlass.install.hosts import SshHost
from windlass.install.steps import InstallOutcome, InstallResult

TOKENS = "/api/v1/windlass/join-tokens"


@pytest.fixture
def installed(master: ScriptedMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every machine takes an agent at once."""
    log_in(master)
    made = {"joinToken": {"id": "t1"}, "token": "wjt_t1_secret", "masterUrl": "http://m:8080"}
    master.on("POST", TOKENS, made)

    def install(host: SshHost, *_: object) -> InstallOutcome:
        return InstallOutcome(host=host.spec, result=InstallResult.INSTALLED)

    monkeypatch.setattr(steps, "install", install)


@pytest.mark.usefixtures("installed")
def test_a_token_that_cannot_be_revoked_hides_no_outcome(master: ScriptedMaster) -> None:
    master.on("DELETE", f"{TOKENS}/t1", lambda _: (500, {"error": {"error": "disk is full"}}))
    done = CliRunner().invoke(app, ["-m", master.url, "agent", "install", "a", "b", "--json"])
    assert done.exit_code == 0, done.output
    assert [o["result"] for o in json.loads(done.stdout)] == ["installed", "installed"]
    assert "join token t1 is not revoked, and lasts until it expires: " in done.stderr
    assert "windlass master join-token revoke t1" in done.stderr
    assert "wjt_t1_secret" not in done.output


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("parallel", "rounds"), [("10", 1), ("2", 2), ("1", 3)])
def test_the_token_lasts_for_as_many_hours_as_there_are_rounds_of_machines(
    master: ScriptedMaster, parallel: str, rounds: int
) -> None:
    master.on("DELETE", f"{TOKENS}/t1", {"joinToken": {"id": "t1"}})
    words = ["agent", "install", "a", "b", "c", "--parallel", parallel]
    done = CliRunner().invoke(app, ["-m", master.url, *words])
    assert done.exit_code == 0, done.output
    (asked,) = master.calls("POST", TOKENS)
    assert (asked.body["uses"], asked.body["validS"]) == (3, rounds * 3600)
