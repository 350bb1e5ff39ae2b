"""Generic tasks: the calls that they have beyond those of all tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from windlass.base.errors import NotFound
from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.client import Client
    from windlass.sdk.context_dir import FileEntry


class GenericTasks:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._session = client.session

    def create(self, config: Json | None, files: Sequence[FileEntry] = (), **more: object) -> Json:
        """{"taskId", "warnings", "configWarnings"}. `config`: None for that of the forked task as it is."""
        body: Json = {
            "config": "" if config is None else json.dumps(config),
            "contextDirectory": [file.to_json() for file in files],
            **more,
        }
        return self._session.post("/api/v1/generic-tasks", body)

    def listed(self, *, ended: bool = False) -> list[Json]:
        """In the order of their creation; `ended`: those that are over, too. Masters of 0.1 have no such list."""
        query = {"ended": ended or None}
        try:
            return list(self._client.pages("/api/v1/windlass/generic-tasks", "tasks", query))
        except NotFound:
            return []

    def config(self, task_id: str) -> Json:
        """As it was submitted."""
        return dict(json.loads(self._session.get(self._path(task_id, "config"))["config"]))

    def pause(self, task_id: str) -> None:
        self._session.post(self._path(task_id, "pause"))

    def unpause(self, task_id: str) -> None:
        self._session.post(self._path(task_id, "unpause"))

    def kill(self, task_id: str, *, from_root: bool = False) -> None:
        self._session.post(self._path(task_id, "kill"), {"killFromRoot": from_root})

    @staticmethod
    def _path(task_id: str, what: str) -> str:
        return f"/api/v1/tasks/{quote(task_id, safe='')}/{what}"
