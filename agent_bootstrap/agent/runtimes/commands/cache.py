"""Images that were made for tasks: files or folders below one folder, each made once, the unused ones removed.

FOLDER/
  net_1-<hash>.sif                   one image; changed when it was made, read when it was last used
  net_1-<hash>.sif.lock              held while somebody makes, takes or removes it; machines may share the folder
  net_1-<hash>.sif.of-<agent>-<id>   a container that uses it
  making-<random>/                   on its way; what a crash leaves of it is removed after a day
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_bootstrap.agent.containers.directory import remove_tree
from agent_bootstrap.agent.runtimes.commands.cache_lock import CacheLock, try_lock
from agent_bootstrap.protocol import RegistryCredentials
from windlass.base.formats.image_reference import ImageReference

HASH_CHARS = 16
MAX_NAME_CHARS = 80
MAKING, LOCK, USER = "making-", ".lock", ".of-"
LEFT_AFTER_S = 24 * 3600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCache:
    """All calls block, but for `place_of`."""

    folder: Path
    suffix: str
    agent_id: str
    limit_bytes: int | None = None
    """None: no bound."""

    def place_of(self, image: ImageReference, login: RegistryCredentials | None) -> Path:
        """Where it is, or will be. Who logs in differently gets another: he may not have been allowed to."""
        told = image.url if login is None else f"{image.url}\0{login.model_dump_json()}"
        readable = re.sub(r"[^A-Za-z0-9.-]+", "_", image.name.rpartition("/")[2])[:MAX_NAME_CHARS]
        digest = hashlib.sha256(told.encode()).hexdigest()[:HASH_CHARS]
        # Programs take what begins with a dash for an option.
        readable = readable.strip("_-.") or "image"
        return self.folder / f"{readable}-{digest}{self.suffix}"

    def lock(self, place: Path) -> CacheLock | None:
        """To be closed; None: somebody else has it."""
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return try_lock(Path(f"{place}{LOCK}"))

    def take(self, place: Path, container_id: str, *, not_before: float = 0.0) -> bool:
        """Whether it is there, and made since; then it is the container's, until `release`. With its lock."""
        try:
            made = place.stat().st_mtime
            if made < not_before:
                return False
            os.utime(place, (time.time(), made))
        except FileNotFoundError:
            return False
        except PermissionError:
            pass  # another user's: it ages
        Path(f"{place}{USER}{self.agent_id}-{container_id}").touch(mode=0o600)
        return True

    def release(self, container_id: str) -> None:
        for path in self._users():
            if path.name.endswith(f"{USER}{self.agent_id}-{container_id}"):
                path.unlink(missing_ok=True)

    def scratch(self) -> Path:
        """A private folder beside the images, so that what is made in it can be moved. Its caller removes it."""
        return Path(tempfile.mkdtemp(prefix=MAKING, dir=self.folder))

    def put(self, made: Path, place: Path) -> None:
        """With its lock. Raises OSError."""
        if place.is_dir():
            place.rename(made.with_name("old"))
        if os.geteuid() == 0 and made.is_file():
            # Tasks of other users run it, from a mount: its folder stays closed to them.
            made.chmod(0o644)
        made.rename(place)
        os.utime(place)

    def add(self, image: ImageReference, layer: bytes) -> None:
        """As a folder, unpacked from an archive of ours, unless it is there or on its way. Raises OSError."""
        place = self.place_of(image, None)
        held = self.lock(place)
        if held is None:
            return
        try:
            if place.exists():
                return
            scratch = self.scratch()
            try:
                made = scratch / "unpacked"
                with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                    archive.extractall(made, filter="fully_trusted")  # noqa: S202  (of ours)
                made.chmod(0o755)
                self.put(made, place)
            finally:
                remove_tree(scratch)
        finally:
            held.close()

    def trim(self) -> None:
        """Remove what was not used for longest, and is not in use, until the rest is within the bound."""
        if self.limit_bytes is None:
            return
        images = {path: size_of(path) for path in self.folder.iterdir() if self._is_image(path)}
        total = sum(images.values())
        for path in sorted(images, key=_used_at):
            if total <= self.limit_bytes:
                return
            if self._remove(path):
                total -= images[path]

    def sweep(self, known: frozenset[str]) -> None:
        """Remove what crashes left. Other machines may be at work in a shared folder."""
        ours = f"{USER}{self.agent_id}-"
        for path in self._users():
            _, mine, container_id = path.name.rpartition(ours)
            if mine and container_id not in known:
                path.unlink(missing_ok=True)
        for path in self.folder.glob(f"{MAKING}*"):
            if time.time() - path.stat().st_mtime > LEFT_AFTER_S:
                remove_tree(path)

    def _remove(self, place: Path) -> bool:
        held = self.lock(place)
        if held is None:
            return False
        try:
            if any(path.name.startswith(f"{place.name}{USER}") for path in self._users()):
                return False
            log.info("image removed, not used for longest: %s", place)
            remove_tree(place)
            return True
        finally:
            held.close()

    def _users(self) -> Iterator[Path]:
        yield from self.folder.glob(f"*{USER}*")

    def _is_image(self, path: Path) -> bool:
        if path.name.startswith(MAKING) or LOCK in path.name or USER in path.name:
            return False
        return path.name.endswith(self.suffix) and path.is_dir() == (not self.suffix)


def size_of(path: Path) -> int:
    """Bytes on the disk."""
    if not path.is_dir():
        return _blocks(path)
    total = 0
    for folder, _, files in os.walk(path):
        total += sum(_blocks(Path(folder, name)) for name in files)
    return total


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def _used_at(path: Path) -> float:
    try:
        return path.stat().st_atime
    except OSError:
        return 0.0
