"""The agent's own credential: made once, private, on disk before anybody sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_bootstrap.agent.connection.credential import load_or_create
from windlass.base.errors import InvalidConfig


def test_it_is_made_once_and_private(tmp_path: Path) -> None:
    made = load_or_create(tmp_path)
    assert len(made) >= 32
    assert load_or_create(tmp_path) == made
    assert (tmp_path / "credential").stat().st_mode & 0o777 == 0o600
    (tmp_path / "other").mkdir()
    assert load_or_create(tmp_path / "other") != made


def test_a_damaged_one_is_told_with_the_way_out_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "credential").write_text("half a secr")
    with pytest.raises(InvalidConfig, match="join-token") as caught:
        load_or_create(tmp_path)
    assert "half a secr" not in str(caught.value)
