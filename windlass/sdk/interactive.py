"""Interactive tasks: the same calls for each kind, under the names that the API gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.context_dir import FileEntry
    from windlass.sdk.session import Query, Session


Pages: TypeAlias = "Callable[[str, str, Query], Iterable[Json]]"
"""All rows of a list: its path, the key of the rows, and the query."""


@dataclass(frozen=True, slots=True)
class Kind:
    """As the API calls it."""

    one: str
    """The key of one in replies."""
    many: str
    """Of several, and in paths."""


COMMAND = Kind("command", "commands")
NOTEBOOK = Kind("notebook", "notebooks")
SHELL = Kind("shell", "shells")
TENSORBOARD = Kind("tensorboard", "tensorboards")
KINDS = (COMMAND, NOTEBOOK, SHELL, TENSORBOARD)


class InteractiveTasks:
    """The calls of one kind."""

    def __init__(self, session: Session, pages: Pages, kind: Kind) -> None:
        self._session = session
        self._pages = pages
        self._kind = kind
        self._path = f"/api/v1/{kind.many}"

    def launch(self, config: Json, files: Sequence[FileEntry] = (), **more: object) -> Json:
        """{kind.one, "config", "warnings", "configWarnings"}. `more`: further keys of the request; None: not given."""
        body: Json = {"config": config, "files": [file.to_json() for file in files]}
        body |= {key: value for key, value in more.items() if value is not None}
        return self._session.post(self._path, body)

    def listed(self, *, user: str | None = None, workspace_id: int | None = None) -> list[Json]:
        """Those of `user`, or everybody's; of one workspace, or all."""
        query = {"users": user, "workspaceId": workspace_id}
        return list(self._pages(self._path, self._kind.many, query))

    def get(self, task_id: str) -> Json:
        """{kind.one, "config"}."""
        return self._session.get(self._one(task_id))

    def one(self, task_id: str) -> Json:
        return dict(self.get(task_id)[self._kind.one])

    def kill(self, task_id: str) -> None:
        self._session.post(f"{self._one(task_id)}/kill")

    def set_priority(self, task_id: str, priority: int) -> None:
        self._session.post(f"{self._one(task_id)}/set_priority", {"priority": priority})

    def _one(self, task_id: str) -> str:
        return f"{self._path}/{quote(task_id, safe='')}"
