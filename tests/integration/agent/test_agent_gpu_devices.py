"""Tasks beside each other on one machine: each opens the device nodes of its own GPUs, and of no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jails import open_way_to, works_or_skip

SCRIPT = Path(__file__).with_name("pretended_gpus.py")
DRIVER = ["nvidia-uvm", "nvidiactl"]


@pytest.mark.parametrize("isolation", ["bubblewrap", "namespace"])
def test_each_task_has_its_own_gpus(isolation: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes device nodes")
    works_or_skip(isolation, tmp_path / "try")
    open_way_to(tmp_path / "x")
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), isolation, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[3])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    none, two, one, part = json.loads(done.stdout)
    assert none == {"nodes": [], "caps": [], "cuda": ""}
    own = ["nvidia3", "nvidia4"]
    assert two == {"nodes": [DRIVER[0], *own, DRIVER[1]], "caps": [], "cuda": "GPU-0aaa,GPU-1aaa"}
    assert one == {"nodes": [DRIVER[0], "nvidia5", DRIVER[1]], "caps": [], "cuda": "GPU-2aaa"}
    assert part == {
        "nodes": [DRIVER[0], "nvidia7", DRIVER[1]],
        "caps": ["nvidia-cap66", "nvidia-cap67"],
        "cuda": "MIG-2bbb",
    }
