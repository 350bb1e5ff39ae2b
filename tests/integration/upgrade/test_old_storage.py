"""Checkpoints of earlier releases, written by tasks that were root into a folder that only root could enter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.upgrade.golden import RELEASES, data_folder, restarted


@pytest.mark.parametrize("release", RELEASES)
async def test_the_masters_own_storage_is_opened_and_what_is_in_it_is_left_alone(
    release: str, tmp_path: Path
) -> None:
    folder = data_folder(release, tmp_path / "data")
    old = folder / "checkpoints" / "0a4f1c9e"
    old.mkdir(parents=True)
    old.chmod(0o755)
    (old / "state").write_text("weights")
    (folder / "checkpoints").chmod(0o700)
    async with restarted(folder):
        assert (folder / "checkpoints").stat().st_mode & 0o7777 == 0o1777
    assert (old / "state").read_text() == "weights"
    assert old.stat().st_mode & 0o7777 == 0o755
    assert folder.stat().st_mode & 0o7777 == 0o700
