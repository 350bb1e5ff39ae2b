"""A machine that agents are installed on, as far as a home folder is one: with a systemd of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import yaml

from tests.command_line import run_here
from tests.real_cluster import WINDLASS

SYSTEMCTL = Path(__file__).parent / "fakes" / "systemctl.py"


class AgentHome:
    """`windlass agent ... --user` run by `run` sees nothing of the real home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.program("systemctl", f'exec {sys.executable} -P {SYSTEMCTL} "$@"')

    def program(self, name: str, script: str) -> None:
        """A program of this name, first in PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DET_", "XDG_", "PYTHON"))}
        return {**kept, "HOME": str(self.home), "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def run(self, *words: str, given: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [WINDLASS, "agent", *words],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
            env=self.environ | environ,
        )

    def run_here(
        self, *words: str, given: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """The same, in this process."""
        return run_here(("agent", *words), self.environ | environ, given)

    @property
    def config(self) -> Path:
        return self.home / ".config/windlass/agent.yaml"

    @property
    def settings(self) -> dict[str, object]:
        found: dict[str, object] = yaml.safe_load(self.config.read_text())
        return found

    @property
    def work_dir(self) -> Path:
        return self.home / ".local/state/windlass/agent"

    @property
    def unit(self) -> Path:
        return self.home / ".config/systemd/user/windlass-agent.service"

    @property
    def log(self) -> str:
        path = self.home / ".systemd/agent.log"
        return path.read_text() if path.exists() else ""

    @property
    def calls(self) -> list[str]:
        """Of systemctl."""
        path = self.home / ".systemd/calls"
        return path.read_text().splitlines() if path.exists() else []

    def break_systemctl(self, *words: str) -> None:
        (self.home / ".systemd").mkdir(exist_ok=True)
        (self.home / ".systemd/broken").write_text(" ".join(words))

    def agents(self) -> list[psutil.Process]:
        """Those that run with this home's agent.yaml."""
        found = []
        for process in psutil.process_iter():
            try:
                if str(self.config) in process.cmdline() and process.status() != "zombie":
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def end(self) -> None:
        for process in self.agents():
            process.terminate()
