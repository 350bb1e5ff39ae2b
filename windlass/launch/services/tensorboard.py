"""A TensorBoard is the program of that name behind the master's proxy, over the files of experiments."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path

from windlass.base.errors import InvalidArgument
from windlass.core._info import ClusterInfo, run_dir
from windlass.core._session import TaskSession
from windlass.launch.entrypoint import run_entrypoint
from windlass.launch.preparation import prepare
from windlass.launch.requirements import require_module
from windlass.launch.services.ports import listen_address, own_port
from windlass.launch.services.readiness import until_ready
from windlass.launch.services.tensorboard_files import Files, read_sources

__all__ = ["prepare", "start"]

PORT, ARGUMENTS = "TENSORBOARD_PORT", "TENSORBOARD_ARGS"
READY = r"^TensorBoard \S+ at http"
FETCH_EVERY_S = 20.0
RELOAD_EVERY_S = 5
"""TensorBoard looks for what was added."""


def start(info: ClusterInfo, session: TaskSession) -> int:
    """Serve until it is ended. The exit code of TensorBoard."""
    stopped = threading.Event()
    try:
        python = os.environ.get("DET_PYTHON_EXECUTABLE") or "python3"
        require_module(python, "tensorboard", "TensorBoard")
        folder = Path(tempfile.mkdtemp(prefix="tensorboard-"))
        files = Files(read_sources(run_dir() / "tensorboard" / "sources.json"), folder)
        keep_fetching(files, stopped)
        with own_port(PORT, session, info) as port:
            words = options(info.task_id, port, folder)
            command = [python, "-m", "tensorboard.main", *words]
            return run_entrypoint(command, session, info, watch=until_ready(READY, session, info))
    finally:
        stopped.set()
        session.close()


def keep_fetching(files: Files, stopped: threading.Event) -> None:
    """Once before this returns: whoever opens the page sees what is there."""
    _fetch(files)
    if not files.any():
        print("TensorBoard is waiting for metrics.", flush=True)

    def run() -> None:
        while not stopped.wait(FETCH_EVERY_S):
            _fetch(files)

    if files.fetches:
        threading.Thread(target=run, name="files", daemon=True).start()


def _fetch(files: Files) -> None:
    for problem in files.fetch():
        print(
            f"windlass launch: not fetched, tried again every {FETCH_EVERY_S:.0f} s: {problem}",
            flush=True,
        )


def options(task_id: str, port: int, folder: Path) -> list[str]:
    """The user's first: what follows wins."""
    return [
        *_arguments(os.environ.get(ARGUMENTS) or "[]"),
        f"--port={port}",
        f"--path_prefix=/proxy/{task_id}",
        f"--host={listen_address()}",
        f"--reload_interval={RELOAD_EVERY_S}",
        "--load_fast=false",  # of the two ways to read, the one that has every plugin
        f"--logdir={folder}",
    ]


def _arguments(text: str) -> list[str]:
    try:
        words = json.loads(text)
    except ValueError as problem:
        raise InvalidArgument(f"{ARGUMENTS} is malformed: {problem}") from None
    return [str(word) for word in words]
