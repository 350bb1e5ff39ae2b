"""The steps of a command around its startup hooks. Nothing of ours is printed: the output is the program's alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from windlass.base.errors import InvalidArgument
from windlass.core._info import ClusterInfo
from windlass.core._session import TaskSession
from windlass.launch.context_files import install_files
from windlass.launch.entrypoint import run_entrypoint
from windlass.launch.task_folder import enter_task

ENTRYPOINT = "DET_COMMAND_ENTRYPOINT"
"""The JSON list of the configuration's `entrypoint`."""


def prepare(info: ClusterInfo, session: TaskSession) -> None:
    """Everything that comes before the startup hooks. Leaves us in the working directory."""
    work_dir = enter_task(info)
    install_files(session, info.task_id, (work_dir,))


def start(info: ClusterInfo, session: TaskSession) -> int:
    """Run the user's program, if there is one. Its exit code."""
    try:
        arguments = arguments_of(os.environ)
        return run_entrypoint(arguments, session, info) if arguments else 0
    finally:
        session.close()


def arguments_of(environ: Mapping[str, str]) -> list[str]:
    """One string is for the shell, several are the program and its arguments as they are. None: the hooks were all."""
    text = environ.get(ENTRYPOINT)
    if not text:
        raise InvalidArgument(f"{ENTRYPOINT} is not set: is this a command?")
    try:
        words = json.loads(text)
    except ValueError as problem:
        raise InvalidArgument(f"{ENTRYPOINT} is malformed: {problem}") from None
    match words:
        case [str(line)]:
            return ["/bin/sh", "-c", line]
        case []:
            return []
        case [str(), *_] if all(isinstance(word, str) for word in words):
            return [str(word) for word in words]
    raise InvalidArgument(f"{ENTRYPOINT} must be a JSON list of strings")
