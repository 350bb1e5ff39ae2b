"""Launches that an embedded site has accepted and delivers later: `<root>/.queue/<token>.json`, one file each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from provisioner.providers.base import LaunchIntent
from windlass.base.files import write_atomic

QUEUE = ".queue"


class QueuedLaunch(BaseModel):
    """What was asked, and when it is delivered. The join token is made at the delivery."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    intent: LaunchIntent
    due: float
    delivered: bool = False
    """Kept until its instances are gone: whoever asks by its handle hears of them."""


class SiteQueue:
    """The handle of a launch is its token."""

    def __init__(self, root: Path) -> None:
        self._folder = root / QUEUE

    def all(self) -> Iterator[QueuedLaunch]:
        for path in sorted(self._folder.glob("*.json")) if self._folder.exists() else ():
            found = _read(path)
            if found is not None:
                yield found

    def get(self, handle: str) -> QueuedLaunch | None:
        return _read(self._path(handle)) if handle.isalnum() else None

    def put(self, launch: QueuedLaunch) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(launch.intent.token)
        write_atomic(path, launch.model_dump_json().encode(), durable=True)

    def drop(self, handle: str) -> None:
        self._path(handle).unlink(missing_ok=True)

    def clear(self) -> None:
        """Nothing is delivered any more."""
        for path in self._folder.glob("*.json"):
            path.unlink(missing_ok=True)
        if self._folder.exists():
            self._folder.rmdir()

    def _path(self, handle: str) -> Path:
        return self._folder / f"{handle}.json"


def _read(path: Path) -> QueuedLaunch | None:
    try:
        return QueuedLaunch.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
