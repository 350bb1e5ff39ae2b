"""A notebook is JupyterLab behind the master's proxy. Beside it a thread tells the master whether it is in use."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from windlass.core._info import ClusterInfo, run_dir
from windlass.core._session import TaskSession
from windlass.launch.entrypoint import program_environment, run_entrypoint
from windlass.launch.preparation import prepare
from windlass.launch.requirements import require_module
from windlass.launch.services.idle_reports import IdleReports, Jupyter
from windlass.launch.services.login_profile import write_greeting, write_profile
from windlass.launch.services.notebook_settings import NotebookSettings
from windlass.launch.services.ports import listen_address, own_port
from windlass.launch.services.readiness import until_ready
from windlass.launch.services.welcome import Welcome, write_welcome

__all__ = ["prepare", "start"]

PORT, TOKEN, CONFIG = "NOTEBOOK_PORT", "DET_NOTEBOOK_TOKEN", "NOTEBOOK_CONFIG"
READY = r"Jupyter Server .* is running"
LOG_FORMAT = "%(levelname)s: [%(name)s] %(message)s"
"""The log of the task takes its levels from the first word."""


def start(info: ClusterInfo, session: TaskSession) -> int:
    """Serve until it is ended. The exit code of JupyterLab."""
    stopped = threading.Event()
    try:
        python = os.environ.get("DET_PYTHON_EXECUTABLE") or "python3"
        require_module(python, "jupyterlab", "JupyterLab")
        settings = NotebookSettings.from_config(os.environ[CONFIG])
        set_environment()
        greeting = prepare_terminals()
        welcome = write_welcome(Path.cwd(), info.task_id, settings)

        def tell_end(said: str) -> None:
            write_greeting(greeting, said)
            if welcome is not None:
                welcome.tell_end(said)

        watch = until_ready(READY, session, info, on_end_known=tell_end)
        with own_port(PORT, session, info) as port:
            jupyter = Jupyter(task_id=info.task_id, port=port, token=os.environ[TOKEN])
            reports = IdleReports(session, jupyter, settings, welcome)
            reports.start(stopped)
            command = [python, "-m", "jupyterlab", *options(jupyter, welcome)]
            return run_entrypoint(command, session, info, watch=watch)
    finally:
        stopped.set()
        session.close()


def prepare_terminals() -> Path:
    """They are login shells. The file that they show."""
    greeting = run_dir() / "jupyter" / "greeting"
    environment = program_environment((), os.environ)
    home = Path(environment.get("HOME") or Path.cwd())
    write_profile(home, environment.get("PATH", ""), greeting)
    return greeting


def options(jupyter: Jupyter, welcome: Welcome | None = None) -> list[str]:
    """The token is not among them: all users of a machine see command lines."""
    settings = {
        "ServerApp.ip": listen_address(),
        "ServerApp.port": jupyter.port,
        "ServerApp.port_retries": 0,
        "ServerApp.base_url": jupyter.base_url,
        "ServerApp.allow_root": True,
        "ServerApp.allow_remote_access": True,  # the name in a request is the master's
        "ServerApp.trust_xheaders": True,
        "ServerApp.root_dir": "/",
        "ContentsManager.allow_hidden": True,  # the working directory may be in ~/.local
        "FileContentsManager.preferred_dir": str(Path.cwd()),
        "ServerApp.open_browser": False,
        "Application.log_format": LOG_FORMAT,
    }
    if welcome is not None:
        settings["LabApp.default_url"] = welcome.page
    return [f"--{name}={value}" for name, value in settings.items()]


def set_environment() -> None:
    folder = run_dir() / "jupyter"
    for name in ("config", "data", "runtime"):
        directory = folder / name
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ.setdefault(f"JUPYTER_{name.upper()}_DIR", str(directory))
    os.environ["JUPYTER_TOKEN"] = os.environ[TOKEN]
