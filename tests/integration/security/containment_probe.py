"""Runs inside of a task and tries everything that a task must not be able to do, and what it must.

usage: containment_probe.py FACTS (JSON)        prints ANSWER and, as JSON, [row, "ok" | "skipped: why" | what was wrong]

Standard library only. A row is a function whose docstring says what is tried. `attack` rows are ok when the attempt is
refused; `work` rows when it succeeds.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import multiprocessing
import os
import platform
import pty
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

FACTS: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
ROWS: dict[str, Callable[[], str]] = {}


class Skip(Exception):
    """This machine cannot tell."""


def attack(name: str, try_it: Callable[[], Any]) -> None:
    """Ok when it fails, or gives nothing (None, False, empty)."""

    def run() -> str:
        try:
            got = try_it()
        except (OSError, subprocess.CalledProcessError, ValueError):
            return "ok"
        return "ok" if not got else f"succeeded: {got!r}"[:300]

    ROWS[name] = run


def work(name: str, try_it: Callable[[], Any]) -> None:
    """Ok when it gives something true."""

    def run() -> str:
        got = try_it()
        return "ok" if got else f"failed: {got!r}"

    ROWS[name] = run


def call(number: int, *arguments: Any) -> int:
    """A system call, its error as OSError."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *words))
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


def refused_call(name: str, x86: int, arm: int, *arguments: Any, told: int = errno.EPERM) -> None:
    """Stopped by the filter itself: another error would mean that the kernel's code was reached."""
    number = x86 if X86 else arm

    def run() -> str:
        if number < 0:
            raise Skip("not on this architecture")
        try:
            call(number, *arguments)
        except OSError as error:
            return "ok" if error.errno == told else f"told {errno.errorcode.get(error.errno or 0)}"
        return "the kernel did it"

    ROWS[f"call {name}"] = run


def read(path: str, count: int = 64) -> Callable[[], bytes]:
    def run() -> bytes:
        with open(path, "rb") as file:
            return file.read(count)

    return run


def write(path: str, content: str = "x") -> Callable[[], bool]:
    def run() -> bool:
        with open(path, "w") as file:
            file.write(content)
        return True

    return run


def listed(path: str) -> Callable[[], list[str]]:
    return lambda: os.listdir(path)


def exists(path: str) -> Callable[[], bool]:
    return lambda: os.path.lexists(path)


# The system calls of the filter.
NOTHING = b"/nothing\0"
for row in (
    ("mount", 165, 40, b"tmpfs\0", b"/tmp\0", b"tmpfs\0", 0, 0),
    ("umount2 of /tmp", 166, 39, b"/tmp\0", 2),
    ("umount2 of /proc/sys", 166, 39, b"/proc/sys\0", 2),
    ("pivot_root", 155, 41, b"/tmp\0", b"/tmp\0"),
    ("chroot", 161, 51, b"/tmp\0"),
    ("open_tree", 428, 428, -100, b"/\0", 1),
    ("move_mount", 429, 429, -100, b"/tmp\0", -100, b"/mnt\0", 0),
    ("fsopen", 430, 430, b"tmpfs\0", 0),
    ("fsconfig", 431, 431, 3, 0, 0, 0, 0),
    ("fsmount", 432, 432, 3, 0, 0),
    ("fspick", 433, 433, -100, b"/\0", 0),
    ("mount_setattr", 442, 442, -100, b"/\0", 0, 0, 0),
    ("setns", 308, 268, 0, 0),
    ("open_by_handle_at", 304, 265, 3, 0, 0),
    ("quotactl", 179, 60, 0, 0, 0, 0),
    ("acct", 163, 89, 0),
    ("swapon", 167, 224, NOTHING, 0),
    ("swapoff", 168, 225, NOTHING),
    ("fanotify_init", 300, 262, 0, 0),
    ("keyctl", 250, 219, 0, -3, 1, 0, 0),
    ("add_key", 248, 217, b"user\0", b"k\0", b"v\0", 1, -3),
    ("request_key", 249, 218, b"user\0", b"k\0", 0, -3),
    ("bpf", 321, 280, 0, 0, 0),
    ("perf_event_open", 298, 241, 0, 0, -1, -1, 0),
    ("userfaultfd", 323, 282, 1),
    ("io_uring_setup", 425, 425, 1, 0),
    ("io_uring_enter", 426, 426, 0, 0, 0, 0, 0, 0),
    ("init_module", 175, 105, 0, 0, b"\0"),
    ("finit_module", 313, 273, 0, b"\0", 0),
    ("delete_module", 176, 106, b"x\0", 0),
    ("kexec_load", 246, 104, 0, 0, 0, 0),
    ("kexec_file_load", 320, 294, 0, 0, 0, 0, 0),
    ("reboot", 169, 142, 0, 0, 0, 0),
    ("settimeofday", 164, 170, 0, 0),
    ("clock_settime", 227, 112, 0, 0),
    ("sethostname", 170, 161, b"x\0", 1),
    ("setdomainname", 171, 162, b"x\0", 1),
    ("syslog", 103, 116, 3, 0, 0),
    ("vhangup", 153, 58),
    ("iopl", 172, -1, 3),
    ("ioperm", 173, -1, 0, 1, 1),
    ("unshare of users", 272, 97, 0x1000_0000),
    ("unshare of mounts", 272, 97, 0x0002_0000),
    ("unshare of pids", 272, 97, 0x2000_0000),
    ("unshare of the network", 272, 97, 0x4000_0000),
    ("unshare of ipc", 272, 97, 0x0800_0000),
    ("unshare of cgroups", 272, 97, 0x0200_0000),
    ("unshare of time", 272, 97, 0x80),
    ("clone with a user namespace", 56, 220, 0x1000_0011, 0, 0, 0, 0),
    ("clone with a mount namespace", 56, 220, 0x0002_0011, 0, 0, 0, 0),
    ("ioctl TIOCSTI", 16, 29, 0, 0x5412, b"x\0"),
    ("ioctl TIOCLINUX", 16, 29, 0, 0x541C, b"\3\0"),
    ("socket to the hypervisor", 41, 198, 40, 1, 0),
    ("x32 getpid", 0x4000_0027, -1),
):
    refused_call(*row)
refused_call("clone3", 435, 435, 0, 0, told=errno.ENOSYS)

# Files of Windlass, of the machine, of others.
for name in FACTS.get("secret_paths", {}):
    attack(f"read {name}", lambda path=FACTS["secret_paths"][name]: read(path)())
    attack(f"see {name}", exists(FACTS["secret_paths"][name]))
for name in FACTS.get("hidden_folders", {}):
    attack(f"list {name}", listed(FACTS["hidden_folders"][name]))
for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers"):
    attack(f"read {path}", read(path))
attack(
    "read host keys of sshd", lambda: [p for p in Path("/etc/ssh").glob("*_key") if p.read_bytes()]
)
attack("list /home", listed("/home"))
attack("list /etc/ssl/private", listed("/etc/ssl/private"))
attack(
    "list /run of the machine",
    lambda: set(os.listdir("/run")) - {"determined", "sshd", "lock", *FACTS["resolvers"]},
)
for path in (
    *(
        "/new",
        "/etc/new",
        "/etc/passwd",
        "/usr/new",
        "/usr/bin/env",
        "/opt/new",
        "/root/new",
        "/home/new",
    ),
    *(
        "/sys/new",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
    ),
    *("/proc/sys/kernel/modprobe", "/dev/new", "/run/new", "/var/new"),
    *(f"{sys.prefix}/new", f"{sys.base_prefix}/new", f"{FACTS.get('checkout', '/')}/windlass/new"),
):
    attack(f"write {path}", write(path))
attack(
    "write a cgroup",
    lambda: [write(str(p))() for p in Path("/sys/fs/cgroup").rglob("cgroup.procs")][:1],
)
attack("write a read-only mount", write("/mnt/read-only/new"))
attack("remove the work of another user", lambda: shutil.rmtree("/etc/ssl") is None)
attack("read the kernel's memory", read("/proc/kcore"))
attack("read the kernel's keys", read("/proc/keys"))
attack("list the kernel's debug folder", listed("/sys/kernel/debug"))
attack("list the firmware", listed("/sys/firmware"))
attack("hard link to a file of root", lambda: os.link("/usr/bin/env", "/tmp/env") is None)
attack("give a file to root", lambda: os.chown(_new_file(), 0, 0) is None)

# Becoming more.
attack("become root", lambda: os.setuid(0) is None)
attack("become the root group", lambda: os.setgid(0) is None)
attack("add groups", lambda: os.setgroups([0]) is None)
attack("hold a capability", lambda: int(_status()["CapPrm"], 16) | int(_status()["CapEff"], 16))
attack("inherit a capability", lambda: int(_status()["CapInh"], 16) | int(_status()["CapAmb"], 16))
attack("gain a capability by exec", lambda: int(_status()["CapBnd"], 16))
attack("new privileges", lambda: _status()["NoNewPrivs"] != "1")
attack("no filter", lambda: _status()["Seccomp"] != "2")
attack("set-user-id programs", lambda: _without_nosuid())
attack("a shell by su", lambda: _output("su", "-c", "id -u").strip() == "0")
attack("a user namespace by unshare", lambda: _output("unshare", "-Ur", "id", "-u"))
attack("a jail in the jail", lambda: _output("bwrap", "--bind", "/", "/", "id", "-u"))

# Devices.
DEVICES = {
    *("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd"),
    *("stdin", "stdout", "stderr", "core"),
}
attack("devices of the machine", lambda: set(os.listdir("/dev")) - DEVICES - set(FACTS["devices"]))
attack(
    "make a block device",
    lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o666, os.makedev(8, 0)) is None,
)
attack(
    "make a memory device",
    lambda: os.mknod("/tmp/mem", stat.S_IFCHR | 0o666, os.makedev(1, 1)) is None,
)
attack("a terminal", lambda: os.open("/dev/tty", os.O_RDWR) >= 0)
attack("the kernel's log", read("/dev/kmsg"))

# Processes and signals.
attack("processes of the machine", lambda: _processes() - _own_tree())
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
attack("trace process 1", lambda: _trace(1) == 0)
attack("read the memory of process 1", lambda: _read_memory(1) > 0)
attack("kill process 1", lambda: _survives(signal.SIGKILL))
attack("stop process 1", lambda: _survives(signal.SIGSTOP))
attack("signal everybody", lambda: _signal_all())
attack("secrets in environments", lambda: [p for p in _processes() if _sees_secret(p)])
attack("inherited file descriptors", lambda: _inherited_descriptors())
attack("the lifeline", lambda: "WINDLASS_LIFELINE_FD" in os.environ)
attack("the agent's environment", lambda: "SECRET_OF_THE_AGENT" in os.environ)
attack("standard input", lambda: os.readlink("/proc/self/fd/0") != "/dev/null")

# Sockets and memory of others.
attack("an abstract socket of the machine", lambda: _abstract())
attack("a socket of the machine", lambda: _connect(socket.AF_UNIX, FACTS["socket"]))
attack("raw packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attack("raw IP", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attack("change an interface", lambda: _take_down("lo"))
attack("System V memory of the machine", lambda: libc.shmat(FACTS["shm_id"], None, 0) != -1)
attack("System V memory listed", lambda: Path("/proc/sysvipc/shm").read_text().splitlines()[1:])
attack("shared memory of the machine", lambda: set(os.listdir("/dev/shm")))

# Limits.
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

# Work.
work("its user", lambda: (os.getuid(), os.getgid()) == tuple(FACTS["ids"]))
work("its name", lambda: _output("id", "-un").strip() == FACTS["user"])
work("its home", lambda: os.path.expanduser("~") == os.getcwd() and write("mine")())
work(
    "its folders",
    lambda: all(
        write(f"{folder}/mine")() for folder in ("/tmp", "/var/tmp", os.environ["DET_RUN_DIR"])
    ),
)
work(
    "its files are its own",
    lambda: (
        os.stat("/run/determined/given").st_uid == os.getuid() and read("/run/determined/given")()
    ),
)
work("files elsewhere", lambda: read("/etc/windlass-test/given")() == b"given")
work("its mount", lambda: write("/mnt/mine/by-the-task")() and os.listdir("/mnt/mine"))
work("a read-only mount", lambda: read("/mnt/read-only/file")() == b"in")
work("the cluster's storage", lambda: write("/storage/by-the-task")())
work("our package", lambda: _python("import windlass.core; print('done')") == "done")
work("a training loop", lambda: _train())
work("torch", lambda: _torch())
work("sub-processes", lambda: _output("sh", "-c", "echo $((1 + 1)) | cat") == "2\n")
work(
    "standard error again",
    lambda: _output("sh", "-c", "echo said >/dev/stderr; echo done") == "done\n",
)
work("standard output again", lambda: os.close(os.open("/dev/stdout", os.O_WRONLY)) is None)
work("threads", lambda: _threads())
work("forked processes", lambda: _pool("fork") == [1, 4])
work("spawned processes", lambda: _pool("spawn") == [1, 4])
work("shared memory", lambda: _shared_memory())
work(
    "shared memory of its size",
    lambda: os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == FACTS["shm_bytes"],
)
work("a database", lambda: sqlite3.connect("/tmp/db").execute("create table t (x)") is not None)
work("a pseudo-terminal", lambda: all(os.isatty(fd) for fd in pty.openpty()))
work("trace its own child", lambda: _trace_child())
work("the loopback", lambda: _connect(socket.AF_INET, ("127.0.0.1", FACTS["port"])))
work("a port of its own", lambda: _listens())
work(
    "processors counted",
    lambda: len(os.sched_getaffinity(0)) > 0 and read("/sys/devices/system/cpu/online")(),
)
work(
    "certificates",
    lambda: not os.path.isdir("/usr/share/ca-certificates") or os.listdir("/etc/ssl/certs"),
)
work("names of hosts", lambda: read("/etc/hosts")())
work("a package of its own", lambda: _installs())
work("sshd", lambda: _ssh())


def _new_file() -> str:
    fd, path = tempfile.mkstemp()
    os.close(fd)
    return path


def _status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _output(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        raise FileNotFoundError(argv[0])
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL, timeout=20
    ).stdout


def _python(code: str, **more: str) -> str:
    return _output(sys.executable, "-c", code).strip()


def _without_nosuid() -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    masks = {"/dev", "/proc", "/sys"}
    return [
        p
        for p in points
        if not os.statvfs(p).f_flag & os.ST_NOSUID
        and os.path.isdir(p)
        and p.split("/")[1] not in masks
    ]


def _processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _own_tree() -> set[int]:
    """Process 1, and all that descends from it, by the kernel's own word."""
    tree = {1}
    for pid in sorted(_processes()):
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            tree.add(pid)  # it has just ended
            continue
        if parent in tree:
            tree.add(pid)
    return tree


def _is_a_stranger(pid: int) -> bool:
    """The same number may be one of ours."""
    return pid not in _own_tree()


def _command_lines() -> Iterator[bytes]:
    for pid in _processes():
        try:
            yield Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue


def _sees_secret(pid: int) -> bool:
    try:
        return b"SECRET_OF" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _trace(pid: int) -> int:
    result = int(libc.ptrace(16, pid, 0, 0))  # PTRACE_ATTACH
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


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
    return "" if _processes() <= _own_tree() else "others"


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
    return _connect(socket.AF_UNIX, "\0" + FACTS["abstract"])


def _connect(family: int, address: Any) -> bool:
    with socket.socket(family) as one:
        one.settimeout(5)
        one.connect(address)
    return True


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


def _train() -> bool:
    code = (
        "import windlass.core as core\n"
        "with core.init() as context:\n"
        "    w = 0.0\n"
        "    for step in range(50):\n"
        "        w -= 0.1 * 2 * (w - 3)\n"
        "        context.train.report_training_metrics(steps_completed=step, metrics={'loss': (w - 3) ** 2})\n"
        "    with context.checkpoint.store_path({'steps_completed': 50}) as (path, uuid):\n"
        "        (path / 'w').write_text(str(w))\n"
        "print('trained', abs(w - 3) < 0.01)\n"
    )
    return "trained True" in _python(code)


def _torch() -> bool:
    if not FACTS["torch"]:
        raise Skip("torch is not installed")
    return "ok" in _python(
        "import torch; x = torch.ones(2, requires_grad=True); (x * x).sum().backward(); print('ok')"
    )


def _threads() -> bool:
    seen: list[int] = []
    threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(seen) == list(range(20))


def square(number: int) -> int:
    return number * number


def _pool(method: str) -> list[int]:
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(square, [1, 2])


def _shared_memory() -> bool:
    memory = SharedMemory(create=True, size=4096)
    memory.buf[0] = 7
    code = (
        "import sys; from multiprocessing.shared_memory import SharedMemory as S\n"
        "from multiprocessing import resource_tracker as t\n"
        f"m = S(name={memory.name!r}); print(m.buf[0]); t.unregister(m._name, 'shared_memory'); m.close()"
    )
    seen = _python(code)
    memory.close()
    memory.unlink()
    return seen == "7"


def _trace_child() -> bool:
    child = subprocess.Popen(["sleep", "20"])
    try:
        _trace(child.pid)
        os.waitpid(child.pid, 0)
        return int(libc.ptrace(17, child.pid, 0, 0)) == 0  # PTRACE_DETACH
    finally:
        child.kill()
        child.wait()


def _listens() -> bool:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return _connect(socket.AF_INET, server.getsockname())


def _installs() -> bool:
    """Without an index: a package of one module from a folder, as `pip install` would put it."""
    target = os.environ.get("PIP_TARGET")
    if target is None:
        target = _python("import site; print(site.getusersitepackages())")
    os.makedirs(target, exist_ok=True)
    write(f"{target}/of_the_task.py", "value = 5")()
    return _python("import of_the_task; print(of_the_task.value)") == "5"


def _ssh() -> bool:
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if sshd is None or shutil.which("ssh") is None:
        raise Skip("sshd is not installed")
    folder = Path("/run/determined/ssh-test")
    folder.mkdir(mode=0o700)
    for key in ("host", "user"):
        _output("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "StrictModes": "no",
        "AuthorizedKeysFile": folder / "authorized",
        "PidFile": "none",
        "UsePAM": "no",
    }
    config = folder / "config"
    config.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    server = subprocess.Popen(
        [sshd, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if "listening on" in line:
                break
        options = (
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "BatchMode=yes",
        )
        return (
            _output(
                "ssh",
                "-p",
                str(port),
                "-i",
                str(folder / "user"),
                *options,
                "127.0.0.1",
                "echo",
                "in",
            ).strip()
            == "in"
        )
    finally:
        server.kill()
        server.wait()


def main() -> None:
    answers = {}
    for name, run in ROWS.items():
        try:
            answers[name] = run()
        except Skip as reason:
            answers[name] = f"skipped: {reason}"
        except Exception as error:  # noqa: BLE001
            answers[name] = f"{type(error).__name__}: {error}"[:300]
            if isinstance(error, subprocess.CalledProcessError):
                answers[name] += f" {error.stderr}"[:500]
    for answer in answers.items():  # a line each: long ones would be cut
        print("ANSWER " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
