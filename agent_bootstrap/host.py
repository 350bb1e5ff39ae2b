"""The machine of an embedded instance: a process that boots, keeps an agent running, and takes everything with it.

usage: python -P -m agent_bootstrap.host --dir D

D/host.json (read; private):  {"instance_id", "boot_s", "start_s" (instead, once D/started is there),
                               "agent": {keys of agent.yaml, join_token among them},
                               "until_dismissed": true if this machine ends with its agent}
D/host.state (written first): {"pid", "start_time", "boot_id"}
D/agent.json, D/join-token:   what the agent is given, mode 0600
D/agent.log:                  what the agent says

Everything below holds the read end of one pipe, the lifeline. SIGTERM writes into it; a SIGKILL closes it: either way
agent and supervisors end, and their tasks with them. Orphans come to this process, which reaps them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.runtimes.commands.user_namespaces import is_pause, is_shared
from windlass.base.files import write_atomic
from windlass.base.processes import boot_id, start_time

PR_SET_CHILD_SUBREAPER = 36
FIRST_RESTART_S = 1.0
LAST_RESTART_S = 10.0
STEADY_S = 30.0
"""An agent that lived this long starts the back-off anew."""
MOST_QUICK_ENDS = 5
"""Then a machine that ends with its agent gives up."""
END_LIMIT_S = 10.0
"""What has not ended this long after the lifeline is killed."""
MAX_LOG_BYTES = 16 * 1024**2
_LIFELINE_FD = 3


class InstanceHost:
    """Runs in the main thread, without asyncio: it has to be small, and to reap whatever comes to it."""

    def __init__(self, directory: Path) -> None:
        self._dir = directory
        self._stopping = False
        self._agent_pid: int | None = None
        self._wake_fd = -1
        self._agent_code: int | None = None
        self._until_dismissed = False
        self._quick_ends = 0
        """How often the agent ended soon after its start, one after the other."""

    def run(self) -> int:
        self._write_state()
        self._catch_signals()
        told = json.loads((self._dir / "host.json").read_bytes())
        os.environ["WINDLASS_INSTANCE_ID"] = str(told["instance_id"])
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        config = self._write_agent_config(told["agent"])
        lifeline_read, lifeline_write = os.pipe()
        again = (self._dir / "started").exists()
        self._sleep(float(told["start_s"] if again and "start_s" in told else told["boot_s"]))
        self._until_dismissed = told.get("until_dismissed", False) is True
        self._keep_agent(config, lifeline_read)
        os.write(lifeline_write, b"\n")
        self._end_children()
        return 0

    def _write_state(self) -> None:
        state = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "boot_id": boot_id()}
        write_atomic(self._dir / "host.state", json.dumps(state).encode())

    def _write_agent_config(self, agent: dict[str, Any]) -> Path:
        """The agent reads its token from a private file; it is on no command line and in no environment."""
        settings = dict(agent)
        token = settings.pop("join_token", None)
        if token is not None:
            write_atomic(self._dir / "join-token", str(token).encode())
            settings["join_token_file"] = str(self._dir / "join-token")
        path = self._dir / "agent.json"
        write_atomic(path, json.dumps(settings).encode())
        return path

    def _is_stopping(self) -> bool:
        """Changes by signals, in every wait."""
        return self._stopping

    def _keep_agent(self, config: Path, lifeline: int) -> None:
        pause = FIRST_RESTART_S
        while not self._is_stopping():
            started = time.monotonic()
            self._agent_pid = self._spawn_agent(config, lifeline)
            while self._agent_pid is not None and not self._is_stopping():
                self._wait(None)
            if time.monotonic() - started > STEADY_S:
                pause, self._quick_ends = FIRST_RESTART_S, 0
            self._quick_ends += 1
            if self._until_dismissed and (
                self._agent_code == 0 or self._quick_ends > MOST_QUICK_ENDS
            ):
                return
            self._sleep(pause)
            pause = min(pause * 2, LAST_RESTART_S)

    def _spawn_agent(self, config: Path, lifeline: int) -> int:
        log = self._dir / "agent.log"
        with suppress(FileNotFoundError):
            if log.stat().st_size > MAX_LOG_BYTES:
                log.replace(self._dir / "agent.log.1")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "agent_bootstrap.agent", "--config-file", str(config)],
            {**os.environ, "WINDLASS_LIFELINE_FD": str(_LIFELINE_FD)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, lifeline, _LIFELINE_FD),
            ],
            setsigmask=(),
            setsigdef=(signal.SIGTERM, signal.SIGINT, signal.SIGCHLD),
        )

    def _catch_signals(self) -> None:
        self._wake_fd, write_end = os.pipe()
        os.set_blocking(self._wake_fd, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(signum, lambda *_: None)

    def _sleep(self, seconds: float) -> None:
        """Until the time is over or a stop is asked for."""
        deadline = time.monotonic() + seconds
        while not self._is_stopping() and (left := deadline - time.monotonic()) > 0:
            self._wait(left)

    def _wait(self, seconds: float | None) -> None:
        """For one signal, at most that long. Reaps."""
        select.select([self._wake_fd], [], [], seconds)
        with suppress(BlockingIOError):
            if set(os.read(self._wake_fd, 512)) & {signal.SIGTERM, signal.SIGINT}:
                self._stopping = True
        self._reap()

    def _reap(self) -> bool:
        """Collect the dead. False: there is no child any more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._agent_pid = None
                return False
            if pid == 0:
                return True
            if pid == self._agent_pid:
                self._agent_pid = None
                self._agent_code = os.waitstatus_to_exitcode(status)

    def _end_children(self) -> None:
        """All that is below becomes a child of this process as its parents end.

        What Podman leaves there would end never, and after the kill of a batch system nobody ends it.
        """
        deadline = time.monotonic() + END_LIMIT_S
        while self._reap():
            if time.monotonic() > deadline or all(map(is_idle_pause, children())):
                kill_children()
            self._wait(0.05)


def children() -> list[int]:
    me = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]


def is_idle_pause(pid: int) -> bool:
    """It keeps a namespace of Podman, in which nobody is any more."""
    with suppress(OSError):
        return is_pause(pid) and not is_shared(pid)
    return False


def kill_children() -> None:
    for pid in children():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="agent_bootstrap.host", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    os.umask(0o077)
    return InstanceHost(parser.parse_args().dir.resolve()).run()


if __name__ == "__main__":
    sys.exit(main())
