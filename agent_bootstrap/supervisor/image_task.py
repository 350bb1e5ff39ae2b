"""What image_init.py does once it knows that its Python is new enough. Standard library only; Python 3.10."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from agent_bootstrap.supervisor.protocol import TOLD_FD, SetupError
from agent_bootstrap.supervisor.task_init import run, say

KILLED = 137
CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.max"),
    ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of the container itself, in both versions."""
NO_LIMIT = 2**60
"""Version 1 says a number near 2**63 for none."""
LOOK_LIMIT_S = 30.0
SAFE_PATH_SINCE = (3, 11)


def main(path: str) -> int:
    """Start the task that the file says and stay with it; its exit code."""
    os.set_inheritable(TOLD_FD, False)
    os.umask(0o022)
    with open(path) as file:
        told = json.load(file)
    spec = {
        "way": "image",
        "argv": command(told["argv"]),
        "env": environment(os.environ, told),
        "work_dir": told["work_dir"],
        "mounted": told["mounted"],
    }

    def enter() -> None:
        require_gpus(told["gpus"])
        make_work_dir(told["work_dir"])

    code = run(spec, enter)
    if code == KILLED and (message := out_of_memory(read_counters())):
        say({"exit_code": code, "message": message})
    return code


def read_counters() -> tuple[int, int | None]:
    """How many processes of this container the kernel killed for memory, and how much it may have. None: no limit."""
    for counters, limit in CGROUP_FILES:
        try:
            with open(counters) as file:
                killed = [line.split()[1] for line in file if line.startswith("oom_kill ")]
            with open(limit) as file:
                most = file.read().strip()
        except OSError:
            continue
        known = most.isdigit() and int(most) < NO_LIMIT
        return int(killed[0]) if killed else 0, int(most) if known else None
    return 0, None


def out_of_memory(counters: tuple[int, int | None]) -> str:
    """Empty: it was something else."""
    killed, limit = counters
    if not killed:
        return ""
    allowed = "what the machine has" if limit is None else f"its limit of {limit / 2**30:.2f} GiB"
    return f"the task was killed because it used more memory than {allowed}"


def command(argv: list[str]) -> list[str]:
    """`{python}` is the interpreter that runs this."""
    if argv[0] != "{python}":
        return argv
    unsafe = sys.version_info < SAFE_PATH_SINCE
    rest = [word for word in argv[1:] if not (unsafe and word == "-P")]
    return [sys.executable, *rest]


def environment(image: Mapping[str, str], told: Mapping[str, Any]) -> dict[str, str]:
    """The image's variables between what it may say otherwise and what it may not. Our packages come last."""
    found = {**told["below"], **image, **told["above"]}
    if told.get("path"):
        found["PATH"] = os.pathsep.join(filter(None, (told["path"], found.get("PATH", ""))))
    searched = [found.get("PYTHONPATH", ""), told["packages"]]
    return found | {"PYTHONPATH": os.pathsep.join(filter(None, searched))}


def require_gpus(wanted: list[str] | None) -> None:
    """That exactly these are visible: an engine that was set up otherwise shows none, or all."""
    if wanted is None:
        return
    shown = visible_gpus()
    if shown is None:
        nodes = [name for name in os.listdir("/dev") if name.removeprefix("nvidia").isdigit()]
        if bool(nodes) == bool(wanted):
            return
        shown = nodes
    if set(shown) != set(wanted):
        raise SetupError(
            f"the container sees the GPUs {names(shown)} in place of {names(wanted)}: set up the NVIDIA container "
            "toolkit (nvidia-ctk) for the engine on this node, or set another container_runtime in agent.yaml"
        )


def visible_gpus() -> list[str] | None:
    """UUIDs of GPUs, and of slices where a GPU is sliced. None: nobody can say here."""
    import re
    import subprocess  # only here: tasks without GPUs start faster without

    try:
        told = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=LOOK_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if told.returncode != 0:
        return None
    found: list[str] = []
    for line in told.stdout.splitlines():
        if match := re.search(r"UUID: ([\w./-]+)", line):
            if line.lstrip().startswith("MIG") and found and found[-1].startswith("GPU-"):
                found.pop()
            found.append(match[1])
    return found


def names(uuids: list[str]) -> str:
    return ", ".join(uuids) or "none"


def make_work_dir(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"work_dir {path}: {error.strerror} for the task's user ({os.getuid()}) in this image: leave work_dir "
            "out, or name a folder that is mounted or that the image has for everybody"
        ) from error
