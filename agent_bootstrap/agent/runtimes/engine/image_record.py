"""What this agent remembers of images: which it pulled itself, when they were last used, whom they know."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from agent_bootstrap.protocol import Message
from windlass.base.files import write_atomic

FILE = "images.json"

log = logging.getLogger(__name__)


class ImageUse(Message):
    name: str
    used: float
    """Seconds since 1970."""
    ours: bool = False
    """Pulled for a task: it may be removed."""
    accounts: dict[str, str] | None = None
    """passwd and group by path. None: not looked up yet."""


class _File(Message):
    images: dict[str, ImageUse] = Field(default_factory=dict)


class ImageRecord:
    """A file in the agent's folder. Of several threads."""

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        """How much of the disk those that are ours may take. None: no bound."""
        self._path = folder / FILE
        self._lock = threading.Lock()
        self._images = dict(self._read())

    def pulled(self, image_id: str, name: str) -> None:
        self._change(image_id, ImageUse(name=name, used=time.time(), ours=True))

    def used(self, image_id: str, name: str, accounts: Mapping[str, str]) -> None:
        known = self._images.get(image_id)
        entry = ImageUse(
            name=name,
            used=time.time(),
            ours=known is not None and known.ours,
            accounts=dict(accounts),
        )
        self._change(image_id, entry)

    def accounts(self, image_id: str) -> Mapping[str, str] | None:
        known = self._images.get(image_id)
        return None if known is None else known.accounts

    def leaving(
        self, sizes: Mapping[str, int], busy: Collection[str], keep_bytes: int
    ) -> list[str]:
        """Which go so that ours take at most so much: those not used for longest, and none that a container has."""
        with self._lock:
            for image_id in [one for one in self._images if one not in sizes]:
                del self._images[image_id]
            ours = {key: entry for key, entry in self._images.items() if entry.ours}
        total = sum(sizes[key] for key in ours)
        leaving = []
        for key in sorted(ours, key=lambda key: ours[key].used):
            if total <= keep_bytes:
                break
            if key not in busy:
                leaving.append(key)
                total -= sizes[key]
        return leaving

    def _change(self, image_id: str, entry: ImageUse) -> None:
        with self._lock:
            self._images[image_id] = entry
            content = _File(images=self._images).model_dump_json().encode()
        try:
            write_atomic(self._path, content)
        except OSError as error:  # then images stay longer than they should
            log.warning("%s: %s", self._path, error.strerror)

    def _read(self) -> Mapping[str, ImageUse]:
        try:
            return _File.model_validate_json(self._path.read_bytes()).images
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            log.warning("%s cannot be read: %s", self._path, type(error).__name__)
            return {}
