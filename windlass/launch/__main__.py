"""The chain of the launcher. Every failure is one line on stderr and exit code 1."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.core._info import ClusterInfo, run_dir
from windlass.core._session import TaskSession
from windlass.launch import command, trial
from windlass.launch.entrypoint import require_python
from windlass.launch.hooks import find_hooks, run_through_hooks

AFTER_HOOKS = "--after-hooks"
"""How the launcher starts itself again from the shell that has sourced the hooks."""
STEPS = {
    "TRIAL": (trial.prepare, trial.start),
    "COMMAND": (command.prepare, command.start),
}
"""By the type of the task: what comes before the startup hooks, and what after them."""


def main(argv: list[str]) -> int:
    try:
        if argv not in ([], [AFTER_HOOKS]):
            raise InvalidArgument("usage: python -P -m windlass.launch (inside a task)")
        info = ClusterInfo.from_env(os.environ)
        if info.task_type not in STEPS:
            raise InvalidArgument(f"only trials and commands are launched, not {info.task_type}")
        prepare, start = STEPS[info.task_type]
        session = TaskSession.for_task(info)
        if not argv:
            prepare(info, session)
            hooks = find_hooks(run_dir(), Path.cwd())
            if hooks:
                session.close()
                alone = ["-E"] if sys.flags.ignore_environment else []
                run_through_hooks(
                    hooks, [sys.executable, *alone, "-P", "-m", "windlass.launch", AFTER_HOOKS]
                )
        require_python(os.environ)
        return start(info, session)
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
