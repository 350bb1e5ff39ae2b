"""Outlives the agent: starts one task, owns its output, passes signals on, and records how it ended.

usage: python -I -S supervisor.py CONTAINER_DIR        (standard library only; started for every task)

Files in CONTAINER_DIR, in the order they appear:
  supervisor.json  who this process is. Written before anything is started, again when the task runs
  spec.json        what to run; secret. Claimed by renaming it (an agent that finds no supervisor.json revokes it the
                   same way, so that a task is either started once or known never to start), removed once it runs
  output.log       one line of output per line: `<microseconds since 1970> <o|e> <text>`
  exit.json        how it ended. Appears, durably, after all output was written

When the task runs, "running" is written to standard output, a pipe to the agent that started this process.
SIGTERM and its like are passed on to the task (kept until it runs); SIGRTMIN+1 kills the whole tree.
WINDLASS_LIFELINE_FD names the read end of a pipe: anything readable there, or its end, means that the machine is over:
kill the tree and go.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from agent_bootstrap.supervisor import cgroup
from agent_bootstrap.supervisor.contact import Contact
from agent_bootstrap.supervisor.kernel import PR_SET_CHILD_SUBREAPER, prctl
from agent_bootstrap.supervisor.launch import become_first
from agent_bootstrap.supervisor.memory_watch import MemoryWatch
from agent_bootstrap.supervisor.output import LineSplitter
from agent_bootstrap.supervisor.output_file import OutputFile
from agent_bootstrap.supervisor.process_tree import (
    boot_id,
    children,
    named_descendant,
    start_time,
)
from agent_bootstrap.supervisor.protocol import KILL_SIGNAL, RELAYED

TYPE_CHECKING = False  # that of `typing` would have it imported, which takes milliseconds
if TYPE_CHECKING:
    from typing import Any

F_SETPIPE_SZ = 1031
READ_BYTES = 1 << 18
PIPE_BYTES = 1 << 20
"""Room for bursts; the default of 64 KiB makes fast writers wait."""
DRAIN_S = 2.0
"""After the end of the tree the pipes must end too; who holds them longer is not ours."""
EXIT_RECORD_BYTES = 4096
"""Reserved at the start, so that a full disk cannot swallow the exit record."""
IMAGE_INIT = b"/image_init.py"
TAIL_BYTES = 1 << 15
"""Of standard error, looked at when the task has failed."""
MAX_FDS = 1 << 16
MAX_TOLD_BYTES = 1 << 16
MAX_MESSAGE = 500
"""The exit record has a fixed size."""


def signal_quietly(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def open_pipe(spec: dict[str, Any], name: str) -> tuple[int, int]:
    """(read end, write end). A task in an image finds them by name: those have been made."""
    if "pipes" not in spec:
        return os.pipe()
    path = os.path.join(spec["pipes"], name)
    read_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    return read_end, os.open(path, os.O_WRONLY | os.O_CLOEXEC)


class Supervisor:
    def __init__(
        self,
        directory: str,
        lifeline: int | None,
        *,
        orphan_ttl_s: float | None = None,
        log_bytes: int | None = None,
    ) -> None:
        self._dir = directory
        self._log_bytes = log_bytes
        self._orphan_ttl_s = orphan_ttl_s
        self._lifeline = lifeline
        self._top = 0
        """The process started here: bubblewrap, or task_init.py."""
        self._init = 0
        """The task_init.py that hands signals to the task. 0 until the task runs."""
        self._status: int | None = None
        self._killed = False
        self._lifeline_lost = False
        self._setup_error: dict[str, str] | None = None
        self._held: list[int] = []
        self._strays = 0
        self._poll = select.poll()
        self._readers: dict[int, Any] = {}
        self._streams: dict[int, LineSplitter] = {}
        self._stderr = -1
        self._tail = b""
        """The end of standard error, which mostly says why the task failed."""
        self._told = b""
        self._told_code: int | None = None
        self._message = ""
        self._started = False
        self._way = ""
        self._scratch = ""
        self._open: set[int] = set()
        """The pipes of the tree; all end with it."""

    def run(self) -> None:
        self._catch_signals()
        self._identify("starting")
        self._reserve_exit_record()
        spec = self._claim_spec()
        if spec is None:
            return
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._output = OutputFile(
            self._path("output.log"),
            limit_bytes=self._log_bytes,
            shipped=self._path("shipped"),
        )
        self._watch_lifeline()
        self._start(spec)
        contact = Contact(self._dir, self._orphan_ttl_s)
        memory = MemoryWatch(self._top, spec.get("watched_bytes", 0))
        while self._status is None:
            self._step(soonest(contact.pause_s, memory.pause_s, self._output.pause_s))
            self._output.flush()
            if self._killed:
                continue
            if contact.is_lost():
                self._kill(contact.sentence())
            elif memory.is_over():
                self._kill(cgroup.out_of_memory(spec["memory_bytes"]))
        self._kill_strays()
        self._drain()
        self._output.flush(last=True)
        if spec.get("cgroup"):
            self._leave_cgroup(spec["cgroup"], spec["memory_bytes"])
        self._record_exit()
        if self._scratch:  # on a disk that no later agent of this job may see
            import shutil  # for this alone, and not for nothing

            shutil.rmtree(self._scratch, ignore_errors=True)

    def _path(self, name: str) -> str:
        return os.path.join(self._dir, name)

    def _catch_signals(self) -> None:
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for signum in (*RELAYED, signal.SIGCHLD, KILL_SIGNAL):
            signal.signal(signum, lambda *_: None)
        self._watch(read_end, self._on_signals)

    def _watch(self, fd: int, reader: Any) -> None:
        self._readers[fd] = reader
        self._poll.register(fd, select.POLLIN)

    def _unwatch(self, fd: int) -> None:
        self._readers.pop(fd, None)
        self._poll.unregister(fd)
        os.close(fd)

    def _identify(self, state: str) -> None:
        me = os.getpid()
        self._write(
            "supervisor.json",
            {
                "pid": me,
                "start_time": start_time(me),
                "boot_id": boot_id(),
                "state": state,
                "top_pid": self._top or None,
                "init_pid": self._init or None,
                "init_start_time": self._start_of_init(),
            },
        )

    def _start_of_init(self) -> int | None:
        """None: it does not run yet, or has ended already."""
        try:
            return start_time(self._init) if self._init else None
        except (FileNotFoundError, ProcessLookupError):
            return None

    def _write(self, name: str, value: dict[str, Any]) -> None:
        temporary = self._path(name + ".tmp")
        with open(temporary, "w") as file:
            json.dump(value, file)
        os.replace(temporary, self._path(name))

    def _reserve_exit_record(self) -> None:
        with open(self._path("exit.tmp"), "wb") as file:
            file.write(b" " * EXIT_RECORD_BYTES)

    def _claim_spec(self) -> dict[str, Any] | None:
        """None: the agent that started this process died, and its successor revoked the start."""
        try:
            os.rename(self._path("spec.json"), self._path("spec.claimed.json"))
        except FileNotFoundError:
            return None
        with open(self._path("spec.claimed.json")) as file:
            spec: dict[str, Any] = json.load(file)
        return spec

    def _watch_lifeline(self) -> None:
        if self._lifeline is not None:
            self._watch(self._lifeline, self._on_lifeline)

    def _start(self, spec: dict[str, Any]) -> None:
        self._way = spec["way"]
        self._scratch = spec.get("scratch", "")
        pipes = [open_pipe(spec, name) for name in ("out", "err", "told")]
        for read_end, write_end in pipes[:2]:
            with contextlib.suppress(OSError):
                fcntl.fcntl(read_end, F_SETPIPE_SZ, PIPE_BYTES)
            if spec["user"] is not None:
                # `echo >/dev/stderr` opens the pipe again: it must belong to whom the task runs as.
                os.fchown(write_end, spec["user"]["uid"], spec["user"]["gid"])
        told_to = os.open(self._path("spec.claimed.json"), os.O_RDONLY)
        me = os.getpid()
        self._top = os.fork()
        if self._top == 0:
            become_first(spec, me, [*(write_end for _, write_end in pipes), told_to])
        for fd in (told_to, *(write_end for _, write_end in pipes)):
            os.close(fd)
        out, err, told = (read_end for read_end, _ in pipes)
        self._stderr = err
        for fd, tag in ((out, b"o"), (err, b"e")):
            self._streams[fd] = LineSplitter(tag)
            self._watch(fd, self._on_output)
        self._watch(told, self._on_told)
        self._open = {out, err, told}

    def _step(self, timeout_s: float | None) -> None:
        """Wait for something to read, and handle it."""
        for fd, _ in self._poll.poll(None if timeout_s is None else timeout_s * 1000):
            reader = self._readers.get(fd)
            if reader is not None:
                reader(fd)

    def _drain(self) -> None:
        """Read what is left in the pipes."""
        deadline = time.monotonic() + DRAIN_S
        while self._open & self._readers.keys() and (left := deadline - time.monotonic()) > 0:
            self._step(left)
        for fd in list(self._streams):
            self._end_stream(fd)

    def _on_output(self, fd: int) -> None:
        chunk = os.read(fd, READ_BYTES)
        if not chunk:
            self._end_stream(fd)
            return
        if fd == self._stderr:
            self._tail = (self._tail + chunk)[-TAIL_BYTES:]
        framed = self._streams[fd].feed(chunk, time.time_ns() // 1000)
        if framed:
            self._output.write(framed)

    def _end_stream(self, fd: int) -> None:
        last = self._streams.pop(fd).end(time.time_ns() // 1000)
        if last:
            self._output.write(last)
        self._unwatch(fd)

    def _on_told(self, fd: int) -> None:
        """A part of what task_init.py says, or its end."""
        chunk = os.read(fd, 4096)
        if not chunk:
            self._unwatch(fd)
            return
        *lines, rest = (self._told + chunk).split(b"\n")
        self._told = rest[:MAX_TOLD_BYTES]
        for line in lines:
            # It runs with the rights of the task. What makes no sense was not said by ours.
            with contextlib.suppress(
                ValueError, TypeError, AttributeError, OverflowError, RecursionError
            ):
                self._hear(json.loads(line))

    def _hear(self, said: dict[str, Any]) -> None:
        if "exit_code" in said:
            self._told_code = int(said["exit_code"]) & 0xFF
            self._message = str(said.get("message", ""))[:MAX_MESSAGE] or self._message
            early = not self._started and not self._killed and self._setup_error is None
            if self._way == "engine" and early:
                text = f"the entrypoint of the image ended with exit code {self._told_code} before the task began"
                self._setup_error = {"failure": "task_error", "message": self._message or text}
        elif "failure" in said and self._setup_error is None:
            failure = "aborted" if said["failure"] == "aborted" else "task_error"
            message = str(said.get("message", ""))[:MAX_MESSAGE]
            self._setup_error = {"failure": failure, "message": message}
        elif "above" in said and not self._started:
            self._started = True
            self._init = self._first_of_ours(said["above"])
            os.unlink(self._path("spec.claimed.json"))
            self._identify("running")
            for signum in self._held:
                self._relay(signum)
            tell_agent()

    def _first_of_ours(self, above: int) -> int:
        """The process that hands signals to the task."""
        if self._way == "command":
            return named_descendant(self._top, IMAGE_INIT) or self._top
        return next(iter(children(self._top)), 0) if above else self._top

    def _on_signals(self, fd: int) -> None:
        for signum in os.read(fd, 512):
            if signum == signal.SIGCHLD:
                self._reap()
            elif signum == KILL_SIGNAL:
                self._kill()
            else:
                self._relay(signum)

    def _relay(self, signum: int) -> None:
        if self._init and self._status is None:
            signal_quietly(self._init, signum)
        else:
            self._held.append(signum)

    def _kill(self, message: str = "") -> None:
        if self._status is None:
            self._killed = True
            self._message = message or self._message
            # Only an engine ends a container of its own; everything else ends with its first process.
            signal_quietly(self._top, KILL_SIGNAL if self._way == "engine" else signal.SIGKILL)

    def _on_lifeline(self, fd: int) -> None:
        self._unwatch(fd)
        self._lifeline_lost = True
        self._kill()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._top:
                self._status = status

    def _kill_strays(self) -> None:
        """The rest of the tree: orphans of the task come to this process, whatever session they made for themselves."""
        me = os.getpid()
        while True:
            for pid in children(me):
                signal_quietly(pid, signal.SIGKILL)
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid:
                self._strays += 1
            else:
                time.sleep(0.002)

    def _leave_cgroup(self, group: str, memory_bytes: int) -> None:
        if cgroup.was_out_of_memory(group) and not self._message:
            self._message = cgroup.out_of_memory(memory_bytes)
        cgroup.end(group)

    def _record_exit(self) -> None:
        """Only task_init.py knows the exit code of the task; if it could not say, it was killed."""
        code = 137 if self._told_code is None or self._killed else self._told_code
        record = {
            "exit_code": code,
            "message": self._message or self._cause(code),
            "at": time.time(),
            "strays_killed": self._strays,
            "started": self._started,
            "setup_error": self._setup_error,
            "lifeline_lost": self._lifeline_lost,
        }
        with open(self._path("exit.tmp"), "r+b") as file:
            file.write(json.dumps(record).encode().ljust(EXIT_RECORD_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._path("exit.tmp"), self._path("exit.json"))
        directory = os.open(self._dir, os.O_RDONLY)
        os.fsync(directory)
        for name in ("spec.json", "spec.claimed.json"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))

    def _cause(self, code: int) -> str:
        """Why the task failed, as far as it said so itself."""
        if code == 0 or self._killed or not self._started:
            return ""
        from agent_bootstrap.supervisor.last_words import cause  # `re` takes milliseconds

        return cause(self._tail)


def soonest(*pauses_s: float | None) -> float | None:
    """None: no time is set."""
    return min((pause for pause in pauses_s if pause is not None), default=None)


def tell_agent() -> None:
    """The agent that started this process may be gone already."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, b"running\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def keep_only_the_lifeline() -> int | None:
    """Close what the agent was itself given by whoever started it: none of it is for the task."""
    number = os.environ.pop("WINDLASS_LIFELINE_FD", "")
    lifeline = int(number) if number else 2
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, MAX_FDS)
    if not number:
        return None
    os.set_inheritable(lifeline, False)
    return lifeline


if __name__ == "__main__":
    os.umask(0o077)
    os.chdir("/")
    ttl = os.environ.pop("WINDLASS_ORPHAN_TTL_S", "")
    log_bytes = os.environ.pop("WINDLASS_TASK_LOG_BYTES", "")
    Supervisor(
        sys.argv[1],
        keep_only_the_lifeline(),
        orphan_ttl_s=float(ttl) if ttl else None,
        log_bytes=int(log_bytes) if log_bytes else None,
    ).run()
    # Taking the interpreter apart takes milliseconds, for which the agent would wait.
    os._exit(0)
