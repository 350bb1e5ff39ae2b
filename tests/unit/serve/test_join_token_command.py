"""`windlass master join-token`: for pools that exist, for agents that are named, for as long as is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from master.auth.join_tokens import JoinTokenSigner, load_or_create
from master.cli import app
from rm_backends.ports import JoinGrant


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    config = tmp_path / "master.yaml"
    config.write_text("resource_pools: [{pool_name: default}, {pool_name: gpu}]\n")
    load_or_create(tmp_path / "data" / "secret")
    return ["--config-file", str(config), "--data-dir", str(tmp_path / "data")]


def printed(arguments: list[str], *words: str) -> str:
    done = CliRunner().invoke(app, ["join-token", *words, *arguments])
    assert done.exit_code == 0, done.output
    return done.output.strip()


def test_the_token_of_a_pool_is_always_the_same(arguments: list[str], tmp_path: Path) -> None:
    token = printed(arguments, "gpu")
    assert token == printed(arguments, "--pool", "gpu")
    assert token == JoinTokenSigner(load_or_create(tmp_path / "data" / "secret")).token("gpu")


@pytest.mark.parametrize("words", [("cpu",), ()])
def test_an_unknown_pool_is_answered_with_those_there_are(
    arguments: list[str], words: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(app, ["join-token", *words, *arguments])
    assert done.exit_code == 1
    assert "are: default, gpu" in done.output
    assert arguments[1] in done.output


def test_a_token_for_an_agent_names_it_and_ends(arguments: list[str], tmp_path: Path) -> None:
    signer = JoinTokenSigner(load_or_create(tmp_path / "data" / "secret"))
    grant = signer.read("gpu", printed(arguments, "gpu", "--agent", "node-7"))
    assert isinstance(grant, JoinGrant)
    assert grant.names == {"node-7"}
    assert grant.agents == 1
    assert grant.expires is not None
    assert timedelta(0) < grant.expires - datetime.now(UTC) <= timedelta(hours=1)
    again = signer.read("gpu", printed(arguments, "gpu", "--agent", "node-7"))
    assert again is not None
    assert again.id != grant.id, "each can be spent once"


@pytest.mark.parametrize("valid", ["soon", "0", "-1h", "99999999999h"])
def test_how_long_must_be_a_duration(arguments: list[str], valid: str) -> None:
    done = CliRunner().invoke(app, ["join-token", "gpu", "--valid", valid, *arguments])
    assert done.exit_code == 1
    assert "--valid" in done.output


def test_a_wrong_configuration_is_told_with_the_file_that_was_read(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("prot: 8080\n")
    done = CliRunner().invoke(app, ["config", "--config-file", str(config)])
    assert done.exit_code == 1
    assert f"error: {config}: " in done.output
    assert "<master.yaml>" not in done.output
