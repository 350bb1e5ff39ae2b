"""The process right above the task: starts it, passes signals on, reaps, takes its exit code.

usage: python -I -S task_init.py        (standard library only)

File descriptor 4 is the specification, a file. What happens is told on file descriptor 3, a line of JSON each:
{"above": n} once the task runs, with the number of processes above this one, {"exit_code": int} when it has ended, or
{"failure": "task_error" | "aborted", "message": str}.

With namespaces this is process 1 of the task's pid namespace. It is needed: a process 1 without handlers ignores TERM,
and nobody else reaps orphans there. bubblewrap starts it as such, in a root that is whole; without bubblewrap (`way`
"namespaces") it makes namespaces and root itself. By then it is the task's user: it has no right that the task has not.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from agent_bootstrap.supervisor.kernel import PR_SET_DUMPABLE, die_with_parent, prctl
from agent_bootstrap.supervisor.protocol import RELAYED, SPEC_FD, TOLD_FD, SetupError

TYPE_CHECKING = False  # that of `typing` would have it imported, which takes milliseconds
if TYPE_CHECKING:
    from typing import Any, NoReturn


def go_to(work_dir: str, *, contained: bool) -> None:
    try:
        os.chdir(work_dir)
    except OSError as error:
        missing = contained and error.errno == errno.ENOENT
        hint = " in the task: bind_mounts bring folders of the machine" if missing else ""
        raise SetupError(f"work_dir {work_dir}: {error.strerror}{hint}") from error


def require_unchanged(mounted: Iterable[tuple[str, int, int]]) -> None:
    """What is mounted (target, device, inode) is what was checked: it may have been exchanged on the way."""
    for target, device, inode in mounted:
        try:
            found = os.stat(target)
        except OSError as error:
            raise SetupError(f"bind mount at {target}: {error.strerror}") from error
        if (found.st_dev, found.st_ino) != (device, inode):
            raise SetupError(f"bind mount at {target}: it was exchanged after it was checked")


def start(spec: dict[str, Any]) -> int:
    """Fork and exec the task. A program that is missing becomes 127, one that cannot be run 126, as in a shell."""
    failed_read, failed_write = os.pipe()
    me = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(failed_read)
        exec_task(spec, me, failed_write)
    os.close(failed_write)
    for signum in RELAYED:
        signal.signal(signum, lambda number, _: pass_on(child, number))
    number = os.read(failed_read, 16)  # its end: the exec went well
    os.close(failed_read)
    if number:
        os.write(2, f"{spec['argv'][0]}: {os.strerror(int(number))}\n".encode())
    return child


def exec_task(spec: dict[str, Any], expected_parent: int, failed: int) -> NoReturn:
    try:
        os.setsid()
        die_with_parent(expected_parent)
        for signum in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606  (no shell is wanted)
    except OSError as error:
        os.write(failed, b"%d" % (error.errno or errno.EINVAL))
        os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)
    finally:
        os._exit(126)


def pass_on(child: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signum)


def reap_until(child: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def say(message: dict[str, Any]) -> None:
    os.write(TOLD_FD, json.dumps(message).encode() + b"\n")


def run(spec: dict[str, Any], enter: Callable[[], None]) -> int:
    """Start the task and stay with it."""
    try:
        enter()
        require_unchanged(spec.get("mounted", ()))
        go_to(spec["work_dir"], contained=spec["way"] != "directory")
        # The task has our user: it may not look into us, nor speak for us.
        prctl(PR_SET_DUMPABLE, 0)
        child = start(spec)
    except SetupError as error:
        say({"failure": "task_error", "message": str(error)})
        return 125
    except OSError as error:
        return give_up(error)
    say({"above": 0 if spec["way"] in ("directory", "image") else 1})
    code = reap_until(child)
    say({"exit_code": code})
    return code


def give_up(error: OSError) -> int:
    say({"failure": "aborted", "message": f"{error.filename or 'start'}: {error.strerror}"})
    return 125


def run_in_namespaces(spec: dict[str, Any]) -> int:
    """Stay outside, with all that is inside below us. bubblewrap has a process like this one, too."""
    from agent_bootstrap.supervisor import namespaces  # only here: the others start faster without

    try:
        first, pipe = namespaces.fork_first_process(spec)
    except OSError as error:
        return give_up(error)
    if first == 0:
        return run(spec, lambda: namespaces.enter_namespaces(spec, pipe))
    os.close(TOLD_FD)
    return reap_until(first)


def main() -> int:
    os.set_inheritable(TOLD_FD, False)
    os.umask(0o022)
    with open(SPEC_FD) as file:
        spec = json.load(file)
    if spec["way"] == "namespaces":
        return run_in_namespaces(spec)
    return run(spec, lambda: None)


if __name__ == "__main__":
    # `os._exit`: as pid 1 there is nothing to clean up, and interpreter shutdown costs milliseconds.
    os._exit(main())
