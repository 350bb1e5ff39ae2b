"""`windlass.core.data` under a torch DataLoader."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import MODELS, REPOSITORY

pytestmark = pytest.mark.slow


def test_a_loader_with_workers_goes_on_at_the_sample_with_fewer_ranks(torch_python: Path) -> None:
    done = subprocess.run(
        [str(torch_python), "-P", str(MODELS / "data_loading.py")],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["states"] == [{"epoch": 0, "consumed": 60, "length": 103, "seed": 1}] * 3
    assert sorted(set(found["taken"])) == list(range(103))
    assert len(found["taken"]) == 104  # one repeated: 43 samples are left for two ranks
    assert found["epoch"] == 1
