"""A user's shell on a machine with a local cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.command_line import run_here

DET = str(Path(sys.executable).with_name("det"))
TRAIN = """
import time
from windlass import core
with core.init() as context:
    for step in range(1, 41):
        time.sleep(0.05)
        context.train.report_validation_metrics(step, {"loss": 1.0 / step})
        if context.preempt.should_preempt():
            with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
                (path / "step").write_text(str(step))
            break
    print("the end", flush=True)
"""
CONFIG: dict[str, Any] = {
    "name": "by hand",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
}


class Shell:
    """A user's shell: a home of its own, and DET_MASTER set."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.data = home / "cluster"
        self.port = port
        self.said = ""
        """By `cluster-up`."""
        (home / "model").mkdir()
        (home / "model" / "train.py").write_text(TRAIN)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "DET_MASTER": f"http://127.0.0.1:{self.port}",
        }

    def look(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`det`, in this process: for what is asked again and again."""
        return run_here(words, self.environ)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [DET, *words],
            cwd=self.home,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    def ok(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"det {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def wrong(self, *words: str) -> str:
        """What is said on stderr: one or more plain lines."""
        done = self.run(*words)
        assert done.returncode in (1, 2), done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr

    def config(self, **changes: Any) -> str:
        path = self.home / "config.yaml"
        path.write_text(yaml.safe_dump({**CONFIG, **changes}))
        return str(path)

    def json(self, *words: str) -> Any:
        """What `det` lists or shows."""
        done = self.look(*words, "--json")
        assert done.returncode == 0, f"det {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def processes(self) -> list[str]:
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or []
            if process.info["status"] != "zombie" and any(str(self.data) in w for w in words):
                found.append(" ".join(words)[:160])
        return found
