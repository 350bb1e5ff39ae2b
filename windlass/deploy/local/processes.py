"""Long-lived processes that a command starts and a later command ends: named by pid and start time, never by guess."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from windlass.base.processes import boot_id, send, start_time, wait_gone
from windlass.deploy.local.records import ProcessRecord, record_of

TERM_GRACE_S = 15.0
"""A master commits and hangs up on SIGTERM; then it is killed."""
SUPERVISOR = "supervisor.py"
"""Every task of an agent has one: `python ... supervisor.py CONTAINER_DIR`."""
KILL_TREE = signal.SIGRTMIN + 1
"""How a supervisor is told to kill its whole task."""


def start_detached(
    name: str, command: Sequence[str], log_file: Path, environ: Mapping[str, str]
) -> ProcessRecord:
    """Start `command` in a session of its own, its output appended to `log_file`."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with os.fdopen(os.open(log_file, flags, 0o600), "wb") as log:
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
    return record_of(name, child.pid)


def end(
    records: Iterable[ProcessRecord], number: int = signal.SIGTERM, *, grace_s: float = TERM_GRACE_S
) -> list[str]:
    """Signal those that still run, wait, kill what stays. Returns the names of those that ran."""
    running = [record for record in records if record.is_alive]
    for record in running:
        send(record.process, number)
    left = _wait(running, grace_s)
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
