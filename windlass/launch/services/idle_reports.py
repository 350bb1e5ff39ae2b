"""Tells the master whether a notebook is idle, as long as it runs. What cannot be seen counts as in use."""

from __future__ import annotations

import json
import threading
import urllib.request
from dataclasses import dataclass
from typing import Any

from windlass.base.errors import WindlassError
from windlass.core._session import TaskSession
from windlass.launch.services.idleness import Usage, is_idle, report_every_s
from windlass.launch.services.notebook_settings import NotebookSettings
from windlass.launch.services.ports import LOOPBACK
from windlass.launch.services.welcome import Welcome

ANSWER_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Jupyter:
    """The server that runs here."""

    task_id: str
    port: int
    token: str

    @property
    def base_url(self) -> str:
        """Below its host."""
        return f"/proxy/{self.task_id}/"

    def ask(self, what: str, within_s: float) -> list[dict[str, Any]]:
        request = urllib.request.Request(
            f"http://{LOOPBACK}:{self.port}{self.base_url}api/{what}",
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=within_s) as answer:  # noqa: S310 - as above
            return list(json.load(answer))


class IdleReports:
    def __init__(
        self,
        session: TaskSession,
        jupyter: Jupyter,
        settings: NotebookSettings,
        welcome: Welcome | None,
    ) -> None:
        self._session = session
        self._jupyter = jupyter
        self._kind = settings.idle_type
        self._every_s = report_every_s(settings.idle_timeout)
        self._welcome = welcome
        self._last: Usage | None = None

    def start(self, stopped: threading.Event) -> None:
        threading.Thread(target=self._run, args=[stopped], name="idle reports", daemon=True).start()

    def _run(self, stopped: threading.Event) -> None:
        path = f"/api/v1/notebooks/{self._jupyter.task_id}/report_idle"
        while not stopped.wait(self._every_s):
            try:
                self._session.request("PUT", path, body={"idle": self._is_idle()}, retry=False)
            except WindlassError as problem:
                print(f"windlass launch: no idle report: {problem}", flush=True)

    def _is_idle(self) -> bool:
        # A report that waits for a slow server may not come later than the notebook may be idle.
        within_s = min(ANSWER_S, self._every_s)
        try:
            usage = Usage(
                *(
                    self._jupyter.ask(what, within_s)
                    for what in ("kernels", "terminals", "sessions")
                )
            )
        except (OSError, ValueError):
            return False
        if self._welcome is not None:
            usage = self._welcome.counted(usage)
        idle = is_idle(self._kind, usage, self._last)
        self._last = usage
        return idle
