"""Long-lived processes that a command starts and a later command ends: named by pid and start time, never by guess."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base.processes import (
    ProcessName,
    boot_id,
    is_running,
    send,
    start_time,
    wait_gone,
)

TERM_GRACE_S = 15.0
"""A master commits and hangs up on SIGTERM; then it is killed."""
SUPERVISOR = "supervisor.py"
"""Every task of an agent has one: `python ... supervisor.py CONTAINER_DIR`."""
KILL_TREE = signal.SIGRTMIN + 1
"""How a supervisor is told to kill its whole task."""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process for ever: `started` is its start in clock ticks after the boot named `boot_id`."""

    name: str
    pid: int
    started: int
    boot_id: str

    def to_json(self) -> dict[str, str | int]:
        return {
            "name": self.name,
            "pid": self.pid,
            "started": self.started,
            "boot_id": self.boot_id,
        }

    @property
    def process(self) -> ProcessName:
        return ProcessName(self.pid, self.started, self.boot_id)

    @property
    def is_alive(self) -> bool:
        return is_running(self.process)


def start_detached(
    name: str, command: Sequence[str], log_file: Path, environ: Mapping[str, str]
) -> ProcessRecord:
    """Start `command` in a session of its own, its output appended to `log_file`."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("ab") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environ),
            start_new_session=True,
        )
    # We will be gone before it is; Popen must not complain that nobody waited.
    child.returncode = 0
    ticks = start_time(child.pid)
    return ProcessRecord(name, child.pid, -1 if ticks is None else ticks, boot_id())


def end(records: Iterable[ProcessRecord], number: int = signal.SIGTERM) -> list[str]:
    """Signal those that still run, wait, kill what stays. Returns the names of those that ran."""
    running = [record for record in records if record.is_alive]
    for record in running:
        send(record.process, number)
    left = _wait(running, TERM_GRACE_S)
    for record in left:
        send(record.process, signal.SIGKILL)
    _wait(left, TERM_GRACE_S)
    return [record.name for record in running]


def supervisors_below(directory: Path) -> list[ProcessRecord]:
    """The supervisors of tasks whose container directory lies below `directory`."""
    root = str(directory.resolve()) + "/"
    found: list[ProcessRecord] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        script = next((i for i, word in enumerate(words) if Path(word).name == SUPERVISOR), None)
        ticks = start_time(int(entry.name))
        if script is not None and ticks is not None and words[script + 1].startswith(root):
            container = Path(words[script + 1]).name
            found.append(ProcessRecord(container, int(entry.name), ticks, boot_id()))
    return found


def _wait(records: Iterable[ProcessRecord], timeout_s: float) -> list[ProcessRecord]:
    deadline = time.monotonic() + timeout_s
    return [r for r in records if not wait_gone(r.process, max(0.0, deadline - time.monotonic()))]
