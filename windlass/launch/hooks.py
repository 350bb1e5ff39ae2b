"""Startup hooks are shell code that changes the environment: a shell sources them, then becomes the launcher again."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from windlass.base.errors import InvalidArgument

PROLOGUE = "prologue.sh"
CLUSTER_HOOK = "dynamic-tcd-startup-hook.sh"
USER_HOOK = "startup-hook.sh"


def find_hooks(run_dir: Path, work_dir: Path) -> list[Path]:
    """The prologue, the cluster's hook and the user's, in the order they run."""
    hooks = (run_dir / PROLOGUE, run_dir / CLUSTER_HOOK, work_dir / USER_HOOK)
    return [path for path in hooks if path.is_file()]


def run_through_hooks(hooks: Sequence[Path], command: Sequence[str]) -> NoReturn:
    """Become a shell that sources `hooks` and then becomes `command`. A failing hook's exit code is the task's."""
    shell = shutil.which("bash")
    if shell is None:
        raise InvalidArgument(f"startup hooks ({hooks[0]}) need bash, which is not on PATH")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(shell, [shell, "-c", _script(hooks, command)])  # noqa: S606 - arguments are quoted


def _script(hooks: Sequence[Path], command: Sequence[str]) -> str:
    # The EXIT trap catches both a failing command (set -e) and a hook that calls `exit`.
    message = "windlass launch: startup hook $__windlass_hook ended with exit code $?"
    lines = ["set -e", f"trap 'echo \"{message}\" >&2' EXIT"]
    for hook in hooks:
        lines += [f"__windlass_hook={shlex.quote(str(hook))}", f"source {shlex.quote(str(hook))}"]
    return "\n".join([*lines, "trap - EXIT", f"exec {shlex.join(command)}"])
