"""A pool that leaves mode auto: the pool of its pilots is kept, closed, while jobs of it are not over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from master.config import load
from master.wiring.agents import all_pools
from provisioner.providers.pilots.book import Pilot, PilotBook
from provisioner.sections.pools import pilot_side
from tests.fakes.fleet_world import an_intent, an_offer


def written(folder: Path, pool: str, ended_at: float | None = None) -> None:
    intent = an_intent(an_offer(4, 1.0), pool=pool)
    pilot = Pilot(tag="wp-1", intent=intent, written_at=0.0, ended_at=ended_at)
    PilotBook(folder / "pilots").put(pilot)


def pools(folder: Path, mode: str, name: str = "gpu") -> dict[str, str]:
    """Why each is closed, by its name."""
    section = {"pool_name": name, "provider": {"type": "slurm", "partition": "gpu", "mode": mode}}
    file = folder / "master.yaml"
    file.write_text(json.dumps({"resource_pools": [section]}))
    config = load(file)
    return {one.name: one.closed for one in all_pools(config, folder)}


@pytest.mark.parametrize("mode", ["dispatch", "pilot"])
def test_it_is_kept_and_takes_nothing_new(tmp_path: Path, mode: str) -> None:
    written(tmp_path, "gpu-pilots")
    found = pools(tmp_path, mode)
    assert found["gpu"] == ""
    assert "use 'gpu'" in found["gpu-pilots"]


def test_it_is_gone_once_its_pilots_are_over(tmp_path: Path) -> None:
    assert pools(tmp_path, "dispatch") == {"gpu": ""}
    written(tmp_path, "gpu-pilots", ended_at=1.0)
    assert pools(tmp_path, "dispatch") == {"gpu": ""}


def test_one_that_is_of_mode_auto_is_open(tmp_path: Path) -> None:
    written(tmp_path, "gpu-pilots")
    assert pools(tmp_path, "auto") == {"gpu": "", pilot_side("gpu"): ""}


def test_pilots_of_a_pool_that_was_removed_keep_none(tmp_path: Path) -> None:
    """As with every pool that is taken out of the configuration."""
    written(tmp_path, "gpu-pilots")
    assert pools(tmp_path, "dispatch", name="other") == {"other": ""}
