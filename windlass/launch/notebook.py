"""A notebook is JupyterLab behind the master's proxy. Beside it a thread tells the master whether it is in use."""

from __future__ import annotations

import json
import os
import threading
import urllib.request
from pathlib import Path
from typing import Any

from windlass.base.errors import WindlassError
from windlass.core._info import ClusterInfo, run_dir
from windlass.core._session import TaskSession
from windlass.launch.entrypoint import run_entrypoint
from windlass.launch.idleness import Usage, is_idle
from windlass.launch.ports import listen_address, own_port
from windlass.launch.preparation import prepare
from windlass.launch.readiness import until_ready
from windlass.launch.requirements import require_module

__all__ = ["prepare", "start"]

PORT, TOKEN, IDLE_TYPE = "NOTEBOOK_PORT", "DET_NOTEBOOK_TOKEN", "NOTEBOOK_IDLE_TYPE"
READY = r"Jupyter Server .* is running"
REPORT_EVERY_S = 30.0
ANSWER_S = 10.0
LOG_FORMAT = "%(levelname)s: [%(name)s] %(message)s"
"""The log of the task takes its levels from the first word."""


def start(info: ClusterInfo, session: TaskSession) -> int:
    """Serve until it is ended. The exit code of JupyterLab."""
    stopped = threading.Event()
    try:
        python = os.environ.get("DET_PYTHON_EXECUTABLE") or "python3"
        require_module(python, "jupyterlab", "JupyterLab")
        base_url = f"/proxy/{info.task_id}/"
        set_environment()
        with own_port(PORT, session, info) as port:
            reports = Reports(session, info, f"http://127.0.0.1:{port}{base_url}", stopped)
            threading.Thread(target=reports.run, name="idle reports", daemon=True).start()
            command = [python, "-m", "jupyterlab", *options(base_url, port)]
            return run_entrypoint(command, session, info, watch=until_ready(READY, session, info))
    finally:
        stopped.set()
        session.close()


def options(base_url: str, port: int) -> list[str]:
    """The token is not among them: all users of a machine see command lines."""
    settings = {
        "ServerApp.ip": listen_address(),
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.base_url": base_url,
        "ServerApp.allow_root": True,
        "ServerApp.allow_remote_access": True,  # the name in a request is the master's
        "ServerApp.trust_xheaders": True,
        "ServerApp.root_dir": "/",
        "FileContentsManager.preferred_dir": str(Path.cwd()),
        "ServerApp.open_browser": False,
        "Application.log_format": LOG_FORMAT,
    }
    return [f"--{name}={value}" for name, value in settings.items()]


def set_environment() -> None:
    folder = run_dir() / "jupyter"
    for name in ("config", "data", "runtime"):
        directory = folder / name
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ.setdefault(f"JUPYTER_{name.upper()}_DIR", str(directory))
    os.environ["JUPYTER_TOKEN"] = os.environ[TOKEN]


class Reports:
    """Tells the master every half a minute whether the notebook is idle. What cannot be seen counts as in use."""

    def __init__(
        self, session: TaskSession, info: ClusterInfo, url: str, stopped: threading.Event
    ) -> None:
        self._session = session
        self._path = f"/api/v1/notebooks/{info.task_id}/report_idle"
        self._url = url
        self._stopped = stopped
        self._kind = os.environ.get(IDLE_TYPE, "")
        self._last: Usage | None = None

    def run(self) -> None:
        while not self._stopped.wait(REPORT_EVERY_S):
            try:
                self._session.request(
                    "PUT", self._path, body={"idle": self._is_idle()}, retry=False
                )
            except WindlassError as problem:
                print(f"windlass launch: no idle report: {problem}", flush=True)

    def _is_idle(self) -> bool:
        try:
            usage = Usage(*map(self._ask, ("kernels", "terminals", "sessions")))
        except (OSError, ValueError):
            return False
        idle = is_idle(self._kind, usage, self._last)
        self._last = usage
        return idle

    def _ask(self, what: str) -> list[dict[str, Any]]:
        request = urllib.request.Request(  # noqa: S310 - on this machine
            f"{self._url}api/{what}", headers={"Authorization": f"token {os.environ[TOKEN]}"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:  # noqa: S310 - as above
            return list(json.load(answer))
