"""Every benchmark still runs: with tiny sizes, and whatever it measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("bench_*.py"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", SCRIPTS)
def test_it_runs(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{script}", "--smoke"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert any(c.isdigit() for c in done.stdout), "it printed no figures"
