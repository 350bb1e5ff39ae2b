"""A PBS of the tests' own: commands that answer only what was recorded (pbs_standin.py), or the real ones."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

COMMANDS = ("qsub", "qstat", "qdel", "qsig", "qselect", "pbsnodes", "pbs_tmrsh")
STANDIN = Path(__file__).parent / "pbs_standin.py"
LIVE = "WINDLASS_TEST_PBS"
"""Set by `make test-pbs`: a queue of the PBS of this machine, with two nodes that are free."""


@dataclass(frozen=True)
class Pbs:
    """The stand-in, in a folder."""

    folder: Path
    marks: tuple[str, ...] = ()
    """How it differs from OpenPBS 23.06.06 as it was recorded: see pbs_standin.py."""

    @property
    def path(self) -> str:
        return str(self.folder / "bin")

    def start(self) -> None:
        for name in ("bin", "state", "aux", "tasks"):
            (self.folder / name).mkdir(parents=True)
        for mark in self.marks:
            (self.folder / mark).touch()
        for name in COMMANDS:
            command = self.folder / "bin" / name
            command.write_text(
                f'#!/bin/sh\nexec {sys.executable} -IS {STANDIN} {self.folder} {name} "$@"\n'
            )
            command.chmod(0o755)

    def run(self, *words: str) -> str:
        """One of its commands."""
        done = subprocess.run(
            [f"{self.path}/{words[0]}", *words[1:]],
            env={**os.environ, "TZ": "UTC"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout

    def down(self, is_down: bool) -> None:
        """Its server stops, or is back."""
        mark = self.folder / "down"
        mark.touch() if is_down else mark.unlink()

    @contextmanager
    def marked(self, mark: str) -> Iterator[None]:
        """It differs so, for some time."""
        (self.folder / mark).touch()
        try:
            yield
        finally:
            (self.folder / mark).unlink()

    @property
    def unrecorded(self) -> list[str]:
        """What it was asked, and could not answer."""
        with suppress(FileNotFoundError):
            return (self.folder / "unrecorded").read_text().splitlines()
        return []

    def stop(self) -> None:
        """Its processes, and what they started, are ended by their ids."""
        states = [json.loads(file.read_text()) for file in self.folder.glob("state/*.json")]
        sessions = {job["session"] for job in states if job["state"] != "F" and "session" in job}
        sessions |= {int(task.name) for task in self.folder.glob("tasks/*/*")}
        mark = str(self.folder)
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                is_ours = any(mark in word for word in process.cmdline())
                if is_ours or os.getsid(process.pid) in sessions:
                    process.send_signal(signal.SIGKILL)


@contextmanager
def running_pbs(folder: Path, *marks: str) -> Iterator[Pbs]:
    pbs = Pbs(folder / "pbs", marks)
    pbs.start()
    try:
        yield pbs
    finally:
        pbs.stop()


def live_queue() -> str | None:
    """Where the tests submit to the PBS of this machine. None: they do not."""
    return os.environ.get(LIVE) if shutil.which("qstat") else None
