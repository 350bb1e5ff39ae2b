"""The log of a task by the numbers of its lines: parts of it, and searches on the master."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from windlass.sdk.session import Session
from windlass.sdk.wire import Json


class TaskLog:
    def __init__(self, session: Session, task_id: str) -> None:
        self._session = session
        self._path = f"/api/v1/windlass/tasks/{quote(task_id, safe='')}/logs"

    def search(
        self, *, text: str = "", regex: str = "", limit: int | None = None
    ) -> Iterator[Json]:
        """Steps as they come: `looked` of `total` lines, `found` so far, new `hits`. One of `text` and `regex`."""
        query = {"text": text or None, "regex": regex or None, "limit": limit}
        yield from self._session.stream(f"{self._path}/search", query)

    def around(self, *, line: int | None = None, id: str | None = None, lines: int) -> list[Json]:
        """A line, by number or id, with so many before and after it. One behind the last is the last."""
        query = {"line": line, "id": id, "before": lines, "after": lines}
        return list(self._session.get(f"{self._path}/window", query)["lines"])
