"""Running seeds in a folder of their own, and the quiet days that others are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.simulation.faults import Fault
from tests.simulation.scenario import SEARCH_SEEDS, Outcome, simulate

RAM = Path("/dev/shm")
"""Where there is one: the database is synced after each commit."""


def run_seed(
    seed: int,
    *,
    faults: Sequence[Fault] | None = None,
    config: Mapping[str, Any] | None = None,
    searches: Sequence[str] | None = None,
) -> Outcome:
    with TemporaryDirectory(dir=RAM if RAM.is_dir() else None) as folder:
        return simulate(seed, Path(folder), faults=faults, config=config, searches=searches)


def quiet_day(seed: int) -> Outcome:
    """The run without faults of the same two searches."""
    return _quiet(seed % SEARCH_SEEDS)


@cache
def _quiet(seed: int) -> Outcome:
    return run_seed(seed, faults=())
