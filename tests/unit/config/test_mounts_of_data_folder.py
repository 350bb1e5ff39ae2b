"""Mounts of master.yaml that would show the master's own folder: told when the file is loaded, not by every task."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from master import cli

BIND = "task_container_defaults:\n  bind_mounts: [{{host_path: {0}, container_path: /mnt/x}}]\n"
STORAGE = "checkpoint_storage: {{type: shared_fs, host_path: {0}}}\n"


@pytest.mark.parametrize("text", [BIND, STORAGE])
@pytest.mark.parametrize("command", ["config", "run"])
def test_a_mount_that_holds_the_data_folder_is_refused_at_load(
    command: str, text: str, tmp_path: Path
) -> None:
    file = tmp_path / "master.yaml"
    file.write_text(text.format(tmp_path))
    data = tmp_path / "data"
    words = [command, "--config-file", str(file), "--data-dir", str(data)]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code != 0
    assert f"host_path: {tmp_path} would show {data}" in " ".join(done.output.split())


def test_mounts_beside_the_data_folder_and_a_storage_in_it_are_fine(tmp_path: Path) -> None:
    file, data = tmp_path / "master.yaml", tmp_path / "data"
    file.write_text(BIND.format(tmp_path / "other") + STORAGE.format(data / "checkpoints"))
    words = ["config", "--config-file", str(file), "--data-dir", str(data)]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
