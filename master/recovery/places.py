"""Where a master keeps its databases, by its `db.url`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from master.logs.store import logs_url
from master.recovery.identity import Kind
from master.store.sql.database import parse_url


@dataclass(frozen=True, slots=True)
class SqliteFiles:
    state: Path
    logs: Path


@dataclass(frozen=True, slots=True)
class DataPlaces:
    folder: Path
    url: str
    """May hold a password: not for messages."""
    files: SqliteFiles | None
    """None: PostgreSQL, or in memory."""

    @property
    def kind(self) -> Kind:
        return "sqlite" if parse_url(self.url).get_backend_name() == "sqlite" else "postgresql"

    @property
    def is_kept(self) -> bool:
        """Whether anything outlives the process."""
        return self.files is not None or self.kind == "postgresql"


def places_of(folder: Path, url: str) -> DataPlaces:
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return DataPlaces(folder, url, None)
    logs = parse_url(logs_url(url)).database
    return DataPlaces(folder, url, SqliteFiles(Path(parsed.database or ""), Path(logs or "")))
