"""A master says at its start who else may read its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.data_folder import exposures


@pytest.mark.parametrize("mode", [0o755, 0o711, 0o750, 0o701])
def test_a_folder_that_others_may_enter_is_told_with_what_helps(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    (warning,) = exposures(tmp_path, runs_agents=False)
    assert f"(mode {mode:o})" in warning
    assert warning.endswith(f"chmod 700 {tmp_path}")


def test_agents_of_its_own_user_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (warning,) = exposures(tmp_path, runs_agents=True)
    assert warning.startswith("embedded agents, and so their tasks, run as the master's own user")
    assert list(exposures(tmp_path, runs_agents=False)) == []


def test_a_private_folder_of_root_is_no_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert list(exposures(tmp_path, runs_agents=True)) == []
