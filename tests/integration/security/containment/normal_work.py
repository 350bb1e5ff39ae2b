"""What must go on working."""

from __future__ import annotations

import multiprocessing
import os
import pty
import shutil
import socket
import sqlite3
import subprocess
import threading
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

from rows import (
    FACTS,
    Skip,
    connect,
    libc,
    output_of,
    python_says,
    read,
    trace,
    work,
    write,
)


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
    return "trained True" in python_says(code)


def _torch() -> bool:
    if not FACTS["torch"]:
        raise Skip("torch is not installed")
    return "ok" in python_says(
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
    seen = python_says(code)
    memory.close()
    memory.unlink()
    return seen == "7"


def _trace_child() -> bool:
    child = subprocess.Popen(["sleep", "20"])
    try:
        trace(child.pid)
        os.waitpid(child.pid, 0)
        return int(libc.ptrace(17, child.pid, 0, 0)) == 0  # PTRACE_DETACH
    finally:
        child.kill()
        child.wait()


def _listens() -> bool:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return connect(socket.AF_INET, server.getsockname())


def _installs() -> bool:
    """Without an index: a package of one module from a folder, as `pip install` would put it."""
    target = os.environ.get("PIP_TARGET")
    if target is None:
        target = python_says("import site; print(site.getusersitepackages())")
    os.makedirs(target, exist_ok=True)
    write(f"{target}/of_the_task.py", "value = 5")()
    return python_says("import of_the_task; print(of_the_task.value)") == "5"


def _ssh() -> bool:
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if sshd is None or shutil.which("ssh") is None:
        raise Skip("sshd is not installed")
    folder = Path("/run/determined/ssh-test")
    folder.mkdir(mode=0o700)
    for key in ("host", "user"):
        output_of("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
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
            output_of(
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


work("its user", lambda: (os.getuid(), os.getgid()) == tuple(FACTS["ids"]))
work("its name", lambda: output_of("id", "-un").strip() == FACTS["user"])
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
work("our package", lambda: python_says("import windlass.core; print('done')") == "done")
work("a training loop", lambda: _train())
work("torch", lambda: _torch())
work("sub-processes", lambda: output_of("sh", "-c", "echo $((1 + 1)) | cat") == "2\n")
work(
    "standard error again",
    lambda: output_of("sh", "-c", "echo said >/dev/stderr; echo done") == "done\n",
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
work("the loopback", lambda: connect(socket.AF_INET, ("127.0.0.1", FACTS["port"])))
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
