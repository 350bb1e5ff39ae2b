"""Processes, signals, sockets, memory and limits."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from rows import FACTS, Skip, attack, connect, libc, listed, own_tree, processes, read, trace, write


def _is_a_stranger(pid: int) -> bool:
    """The same number may be one of ours."""
    return pid not in own_tree()


def _command_lines() -> Iterator[bytes]:
    for pid in processes():
        try:
            yield Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue


def _sees_secret(pid: int) -> bool:
    try:
        return b"SECRET_OF" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _read_memory(pid: int) -> int:
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    buffer = ctypes.create_string_buffer(8)
    here, there = Vector(ctypes.addressof(buffer), 8), Vector(0x400000, 8)
    return int(libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))


def _survives(signum: int) -> str:
    """Empty when process 1 goes on as before: it reaps, so our orphans end."""
    os.kill(1, signum)
    time.sleep(0.05)
    state = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[0]
    return "" if state in "SRD" else state


def _signal_all() -> str:
    """CONT to everybody we may signal: the others must not have it. The count of those that we can is ours alone."""
    os.kill(-1, 0)
    return "" if processes() <= own_tree() else "others"


def _inherited_descriptors() -> set[int]:
    open_here = {int(name) for name in os.listdir("/proc/self/fd")}
    return {
        fd for fd in open_here if fd > 2 and _is_open(fd) and fd not in FACTS.get("own_fds", [])
    }


def _is_open(fd: int) -> bool:
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False
    return not target.startswith("/proc/")


def _abstract() -> bool:
    abi = libc.syscall(444, None, 0, 1)
    if abi < 6:
        raise Skip("Landlock of this kernel cannot scope sockets (Linux 6.12)")
    return connect(socket.AF_UNIX, "\0" + FACTS["abstract"])


def _take_down(interface: str) -> bool:
    with socket.socket() as one:
        fcntl.ioctl(one, 0x8914, struct.pack("16sH22x", interface.encode(), 0))
    return True


def _fill(path: str, size: int) -> bool:
    try:
        with open(path, "wb") as file:
            for _ in range(size // 4096):
                file.write(b"\0" * 4096)
    finally:
        os.unlink(path)
    return True


attack("processes of the machine", lambda: processes() - own_tree())
attack(
    "command lines of the machine",
    lambda: [c for c in _command_lines() if b"supervisor.py" in c or b"bwrap" in c],
)
for name, pid in FACTS.get("pids", {}).items():
    attack(f"signal {name}", lambda pid=pid: _is_a_stranger(pid) and os.kill(pid, 0) is None)
    attack(
        f"read the environment of {name}",
        lambda pid=pid: _is_a_stranger(pid) and read(f"/proc/{pid}/environ", 1 << 16)(),
    )
    attack(f"a handle on {name}", lambda pid=pid: _is_a_stranger(pid) and os.pidfd_open(pid) >= 0)
for name in ("environ", "mem", "maps", "auxv"):
    attack(f"read /proc/1/{name}", read(f"/proc/1/{name}"))
for name in ("root", "cwd", "exe"):
    attack(f"follow /proc/1/{name}", lambda name=name: os.readlink(f"/proc/1/{name}"))
attack("list /proc/1/fd", listed("/proc/1/fd"))
attack("list /proc/1/root", listed("/proc/1/root/"))
attack("trace process 1", lambda: trace(1) == 0)
attack("read the memory of process 1", lambda: _read_memory(1) > 0)
attack("kill process 1", lambda: _survives(signal.SIGKILL))
attack("stop process 1", lambda: _survives(signal.SIGSTOP))
attack("signal everybody", lambda: _signal_all())
attack("secrets in environments", lambda: [p for p in processes() if _sees_secret(p)])
attack("inherited file descriptors", lambda: _inherited_descriptors())
attack("the lifeline", lambda: "WINDLASS_LIFELINE_FD" in os.environ)
attack("the agent's environment", lambda: "SECRET_OF_THE_AGENT" in os.environ)
attack("standard input", lambda: os.readlink("/proc/self/fd/0") != "/dev/null")

attack("an abstract socket of the machine", lambda: _abstract())
attack("a socket of the machine", lambda: connect(socket.AF_UNIX, FACTS["socket"]))
attack("raw packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attack("raw IP", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attack("change an interface", lambda: _take_down("lo"))
attack("System V memory of the machine", lambda: libc.shmat(FACTS["shm_id"], None, 0) != -1)
attack("System V memory listed", lambda: Path("/proc/sysvipc/shm").read_text().splitlines()[1:])
attack("shared memory of the machine", lambda: set(os.listdir("/dev/shm")))

attack("core files", lambda: resource.getrlimit(resource.RLIMIT_CORE)[1])
attack("raise a limit", lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)) is None)
attack(
    "processes without end",
    lambda: resource.getrlimit(resource.RLIMIT_NPROC)[1] == resource.RLIM_INFINITY,
)
attack("go before others", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20) is None)
attack(
    "real-time scheduling",
    lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)) is None,
)
attack("escape the OOM killer", write("/proc/self/oom_score_adj", "-1000"))
attack(
    "more shared memory than asked for", lambda: _fill("/dev/shm/big", FACTS["shm_bytes"] + 4096)
)
