"""What image_init.py does once it knows that its Python is new enough. Standard library only; Python 3.10."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from agent_bootstrap.supervisor.protocol import TOLD_FD, SetupError
from agent_bootstrap.supervisor.task_init import run

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
    return run(spec, lambda: make_work_dir(told["work_dir"]))


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


def make_work_dir(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"work_dir {path}: {error.strerror} for the task's user ({os.getuid()}) in this image: leave work_dir "
            "out, or name a folder that is mounted or that the image has for everybody"
        ) from error
