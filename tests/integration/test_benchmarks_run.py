"""Every benchmark still runs: with tiny sizes, and whatever it measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("bench_*.py"))
LONG = {
    "bench_agent_install", "bench_batch_modes", "bench_boot", "bench_checkpoint_archive", "bench_clouds",
    "bench_containers", "bench_slow_connections", "bench_storage", "bench_submit", "bench_tls",
}  # fmt: skip
"""They take long at any size, or need what is not everywhere: mypy alone looks at them."""


@pytest.mark.slow
@pytest.mark.parametrize("script", [script for script in SCRIPTS if script not in LONG])
def test_it_runs(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{script}", "--smoke"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert any(c.isdigit() for c in done.stdout), "it printed no figures"


def test_the_long_ones_exist() -> None:
    assert set(SCRIPTS) > LONG
