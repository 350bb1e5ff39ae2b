"""`windlass master pool-token`: for pools that exist, without a running master."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from master.auth.join_tokens import JoinTokenSigner, load_or_create
from master.cli import app


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    config = tmp_path / "master.yaml"
    config.write_text("resource_pools: [{pool_name: default}, {pool_name: gpu}]\n")
    load_or_create(tmp_path / "data" / "secret")
    return ["--config-file", str(config), "--data-dir", str(tmp_path / "data")]


def test_the_token_of_a_pool_is_always_the_same(arguments: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pool-token", "gpu", *arguments])
    assert done.exit_code == 0, done.output
    signer = JoinTokenSigner(load_or_create(tmp_path / "data" / "secret"))
    assert done.output.strip() == signer.token("gpu")


def test_an_unknown_pool_is_answered_with_those_there_are(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["pool-token", "cpu", *arguments])
    assert done.exit_code == 1
    assert "are: default, gpu" in done.output
    assert arguments[1] in done.output


def test_a_wrong_configuration_is_told_with_the_file_that_was_read(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("prot: 8080\n")
    done = CliRunner().invoke(app, ["config", "--config-file", str(config)])
    assert done.exit_code == 1
    assert f"error: {config}: " in done.output
    assert "<master.yaml>" not in done.output
