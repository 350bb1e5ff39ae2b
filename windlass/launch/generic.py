"""The steps of a generic task around its startup hooks: a command whose processes on several agents know each other."""

from __future__ import annotations

import os

from windlass.core._info import ClusterInfo, run_dir, write_info
from windlass.core._session import TaskSession
from windlass.launch.command import arguments_of
from windlass.launch.entrypoint import run_entrypoint
from windlass.launch.preparation import prepare
from windlass.launch.rendezvous import rendezvous

__all__ = ["prepare", "start"]


def start(info: ClusterInfo, session: TaskSession) -> int:
    """Meet the other containers, run the user's program. Its exit code."""
    met = rendezvous(session, info, os.environ)
    write_info(run_dir() / "info", "rendezvous.json", met.to_json())
    try:
        return run_entrypoint(arguments_of(os.environ), session, info)
    finally:
        session.close()
