"""The chain of the launcher. Every failure is one line on stderr and exit code 1."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.core._info import ClusterInfo, run_dir
from windlass.core._session import TaskSession
from windlass.launch.hooks import find_hooks, run_through_hooks
from windlass.launch.requirements import require_python

AFTER_HOOKS = "--after-hooks"
"""How the launcher starts itself again from the shell that has sourced the hooks."""
MODULES = {
    "TRIAL": "windlass.launch.trial",
    "COMMAND": "windlass.launch.command",
    "GENERIC": "windlass.launch.generic",
    "SHELL": "windlass.launch.services.shell",
    "NOTEBOOK": "windlass.launch.services.notebook",
    "TENSORBOARD": "windlass.launch.services.tensorboard",
}
"""By the type of the task: `prepare` comes before the startup hooks, and `start` after them."""


def main(argv: list[str]) -> int:
    try:
        if argv not in ([], [AFTER_HOOKS]):
            raise InvalidArgument("usage: python -P -m windlass.launch (inside a task)")
        info = ClusterInfo.from_env(os.environ)
        if info.task_type not in MODULES:
            raise InvalidArgument(f"this release launches no tasks of type {info.task_type}")
        steps = import_module(MODULES[info.task_type])
        session = TaskSession.for_task(info)
        if not argv:
            steps.prepare(info, session)
            hooks = find_hooks(run_dir(), Path.cwd())
            if hooks:
                session.close()
                alone = ["-E"] if sys.flags.ignore_environment else []
                run_through_hooks(
                    hooks, [sys.executable, *alone, "-P", "-m", "windlass.launch", AFTER_HOOKS]
                )
        require_python(os.environ)
        return int(steps.start(info, session))
    except (WindlassError, OSError) as problem:
        print(f"windlass launch: {problem}", file=sys.stderr, flush=True)
        return 1


def leave(code: int) -> NoReturn:
    """End at once: taking an interpreter apart takes as long as starting it, and whoever waits for the exit waits."""
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
