"""The table of rows, and what they are made of. Standard library only: it runs inside of a task.

A row is ok, skipped with a reason, or says what was wrong. `attack` rows are ok when the attempt is refused; `work` rows when it
succeeds.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
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


def output_of(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        raise FileNotFoundError(argv[0])
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL, timeout=20
    ).stdout


def python_says(code: str, **more: str) -> str:
    return output_of(sys.executable, "-c", code).strip()


def own_status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def own_tree() -> set[int]:
    """Process 1, and all that descends from it, by the kernel's own word."""
    tree = {1}
    for pid in sorted(processes()):
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            tree.add(pid)  # it has just ended
            continue
        if parent in tree:
            tree.add(pid)
    return tree


def connect(family: int, address: Any) -> bool:
    with socket.socket(family) as one:
        one.settimeout(5)
        one.connect(address)
    return True


def trace(pid: int) -> int:
    result = int(libc.ptrace(16, pid, 0, 0))  # PTRACE_ATTACH
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result
