"""Long-lived processes that a command starts and a later command ends: named by pid and start time, never by guess."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TERM_GRACE_S = 15.0
"""A master commits and hangs up on SIGTERM; then it is killed."""
POLL_S = 0.05
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
    def is_alive(self) -> bool:
        return self.boot_id == boot_id() and start_ticks(self.pid) == self.started


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat; None if there is no such process, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


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
    ticks = start_ticks(child.pid)
    return ProcessRecord(name, child.pid, -1 if ticks is None else ticks, boot_id())


def end(records: Iterable[ProcessRecord], number: int = signal.SIGTERM) -> list[str]:
    """Signal those that still run, wait, kill what stays. Returns the names of those that ran."""
    running = [record for record in records if record.is_alive]
    for record in running:
        _signal(record, number)
    left = _wait(running, TERM_GRACE_S)
    for record in left:
        _signal(record, signal.SIGKILL)
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
        ticks = start_ticks(int(entry.name))
        if script is not None and ticks is not None and words[script + 1].startswith(root):
            container = Path(words[script + 1]).name
            found.append(ProcessRecord(container, int(entry.name), ticks, boot_id()))
    return found


def _signal(record: ProcessRecord, number: int) -> None:
    try:
        handle = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return
    try:
        if record.is_alive:  # checked while the handle keeps the pid from meaning another process
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def _wait(records: Iterable[ProcessRecord], timeout_s: float) -> list[ProcessRecord]:
    deadline = time.monotonic() + timeout_s
    left = [record for record in records if record.is_alive]
    while left and time.monotonic() < deadline:
        time.sleep(POLL_S)
        left = [record for record in left if record.is_alive]
    return left
