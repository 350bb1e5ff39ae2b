"""Keeps one process of a local cluster running: starts it again when it ends, ends it when told to, bounds its log.

usage: python -P -m windlass.deploy.local.keeper SERVICES_DIR NAME        (one keeper for each process)

SIGTERM ends the process and then the keeper. If the keeper itself is killed its process goes on: its state file says
which it is, so that the next `det deploy local` command finds it.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from windlass.deploy.local.records import ServiceSpec, ServiceState, record_of

END_GRACE_S = 15.0
"""A master commits and hangs up on SIGTERM; then it is killed."""
FIRST_RESTART_S = 1.0
LAST_RESTART_S = 30.0
STEADY_S = 60.0
"""A process that lived this long starts the back-off anew."""
MAX_LOG_BYTES = 64 * 1024**2
"""A longer log becomes NAME.log.1, over the one before it."""
LOG_LOOK_S = 30.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_OURS = (*_STOP_SIGNALS, signal.SIGCHLD, signal.SIGHUP)


class Keeper:
    """Runs in the main thread, without asyncio: it is small, and there is one for each process."""

    def __init__(self, services: Path, name: str) -> None:
        self._services = services
        self._spec = ServiceSpec.read(services, name)
        self._state = ServiceState(keeper=record_of(name, os.getpid()))
        self._stopping = False
        self._wake_fd = -1

    def run(self) -> int:
        if not self._is_only_one():
            return 0
        self._catch_signals()
        self._note(self._state)
        pause = FIRST_RESTART_S
        while not self._is_stopping():
            started = time.monotonic()
            self._run_once()
            if not self._spec.autorestart:
                break
            if time.monotonic() - started > STEADY_S:
                pause = FIRST_RESTART_S
            self._wait_until(time.monotonic() + pause)
            pause = min(2 * pause, LAST_RESTART_S)
        return 0

    def _is_only_one(self) -> bool:
        """The lock is let go of by the kernel, however this process ends."""
        path = self._services / f"{self._spec.name}.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_stopping(self) -> bool:
        """Changes by signals, in every wait."""
        return self._stopping

    def _run_once(self) -> None:
        pid = self._spawn()
        status: int | None = None
        while status is None and not self._is_stopping():
            self._bound_log()
            self._wait(LOG_LOOK_S)
            status = _reaped(pid)
        if status is None:
            status = self._end(pid)
        restarts = self._state.restarts + (not self._is_stopping() and self._spec.autorestart)
        self._note(replace(self._state, process=None, restarts=restarts, ended=_words(status)))

    def _spawn(self) -> int:
        """The process waits for its first line until the state file names it: none runs unknown."""
        gate, opener = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            _become(self._spec, gate)
        os.close(gate)
        self._note(replace(self._state, process=record_of(self._spec.name, pid)))
        with suppress(BrokenPipeError):  # something has killed it already: it is found ended
            os.write(opener, b"\n")
        os.close(opener)
        return pid

    def _end(self, pid: int) -> int:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + END_GRACE_S
        while (status := _reaped(pid)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                os.kill(pid, signal.SIGKILL)
            self._wait(max(left, 1.0))
        return status

    def _bound_log(self) -> None:
        """The process appends, so the file can be emptied under it; a line written just then may be lost."""
        with suppress(OSError):
            if self._spec.log.stat().st_size > MAX_LOG_BYTES:
                shutil.copyfile(self._spec.log, self._spec.log.with_suffix(".log.1"))
                os.truncate(self._spec.log, 0)

    def _note(self, state: ServiceState) -> None:
        self._state = state
        state.write(self._services, self._spec.name)

    def _catch_signals(self) -> None:
        self._wake_fd, write_end = os.pipe()
        os.set_blocking(self._wake_fd, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for signum in _OURS:
            signal.signal(signum, lambda *_: None)

    def _wait_until(self, deadline: float) -> None:
        while not self._is_stopping() and (left := deadline - time.monotonic()) > 0:
            self._wait(left)

    def _wait(self, seconds: float) -> None:
        """For one signal, at most that long."""
        select.select([self._wake_fd], [], [], seconds)
        with suppress(BlockingIOError):
            if set(os.read(self._wake_fd, 512)) & set(_STOP_SIGNALS):
                self._stopping = True


def _become(spec: ServiceSpec, gate: int) -> None:
    """In the forked child. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for signum in _OURS:
            signal.signal(signum, signal.SIG_DFL)
        os.setsid()
        if not os.read(gate, 1):
            os._exit(127)  # the keeper died before it had written who we are
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execve(spec.command[0], spec.command, {**os.environ, **spec.environ})  # noqa: S606
    except OSError as error:
        os.write(2, f"error: cannot start {spec.command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _reaped(pid: int) -> int | None:
    """The exit code of the child, negative for a signal. None: it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


if __name__ == "__main__":
    os.umask(0o077)
    os.chdir("/")
    sys.exit(Keeper(Path(sys.argv[1]), sys.argv[2]).run())
