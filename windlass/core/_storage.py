"""Where checkpoints lie: a directory that every node of the cluster sees.

Of the storage types of the experiment configuration these are `shared_fs` and `directory`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from windlass.base.errors import InvalidConfig, NotFound

SHARED_FS_CONTAINER_PATH = "/determined_shared_fs"
SHARED_FS_VARIABLE = "WINDLASS_SHARED_FS"
"""Set where tasks run without a mount namespace: the host directory that is `/determined_shared_fs` elsewhere."""

Selector = Callable[[str], bool]


class DirectoryStorage:
    """Checkpoints as directories `<base>/<storage id>`."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def path(self, storage_id: str) -> Path:
        if not storage_id or "/" in storage_id or storage_id in (".", ".."):
            raise ValueError(f"{storage_id!r} is not a checkpoint id")
        return self.base / storage_id

    def existing(self, storage_id: str) -> Path:
        path = self.path(storage_id)
        if not path.is_dir():
            raise CheckpointNotFound(storage_id)
        return path

    def prepare(self, storage_id: str) -> Path:
        path = self.path(storage_id)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def upload(self, source: Path, storage_id: str, names: Collection[str]) -> None:
        copy_selected(source, self.prepare(storage_id), names)

    def download(self, storage_id: str, target: Path, names: Collection[str]) -> None:
        target.mkdir(parents=True, exist_ok=True)
        copy_selected(self.existing(storage_id), target, names)

    def delete(self, storage_id: str) -> None:
        """Remove it. One that is gone already is fine: a delete may be repeated."""
        path = self.path(storage_id)
        if path.exists():
            shutil.rmtree(path)


class CheckpointNotFound(NotFound):
    def __init__(self, storage_id: str) -> None:
        super().__init__("checkpoint", storage_id)


def list_files(root: Path) -> dict[str, int]:
    """Relative path -> size of everything below `root`; directories end in "/" and have size 0."""
    found: dict[str, int] = {}
    for current, directories, files in os.walk(root):
        relative = Path(current).relative_to(root)
        for name in directories:
            found[f"{relative / name}/"] = 0
        for name in files:
            found[str(relative / name)] = (Path(current) / name).stat().st_size
    return found


def copy_selected(source: Path, target: Path, names: Collection[str]) -> None:
    for name in sorted(names):
        destination = target / name
        if name.endswith("/"):
            destination.mkdir(parents=True, exist_ok=True)
        else:
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, destination)


def build_storage(
    config: Mapping[str, Any] | str, *, on_cluster: bool, environ: Mapping[str, str]
) -> DirectoryStorage:
    """The storage of a `checkpoint_storage` section, or of a path given to `core.init()`. Raises InvalidConfig."""
    if isinstance(config, str):
        return DirectoryStorage(_path_of(config))
    match config.get("type"):
        case "shared_fs":
            return DirectoryStorage(_shared_fs_base(config, on_cluster, environ))
        case "directory":
            path = config.get("container_path")
            if not path:
                raise InvalidConfig(["container_path: is required"], what="checkpoint_storage")
            return DirectoryStorage(Path(str(path)))
        case other:
            raise InvalidConfig(
                [f"type: {other!r} is not served by windlass.core; use shared_fs or directory"],
                what="checkpoint_storage",
            )


def storage_report(config: Mapping[str, Any] | str) -> dict[str, Any]:
    """The storage as the master wants it reported."""
    if isinstance(config, str):
        return {"type": "shared_fs", "host_path": str(_path_of(config))}
    return dict(config)


def check_writable(storage: DirectoryStorage) -> None:
    """Write, read and delete a small scratch checkpoint. Raises OSError that names the path."""
    storage_id = f"windlass-check-{os.getpid()}-{os.urandom(4).hex()}"
    path = storage.prepare(storage_id)
    try:
        probe = path / "probe"
        probe.write_text("ok")
        if probe.read_text() != "ok":
            raise OSError(f"{probe} does not hold what was written to it")
    finally:
        storage.delete(storage_id)


def _path_of(text: str) -> Path:
    parts = urlsplit(text)
    if parts.scheme not in ("", "file") or parts.netloc:
        raise InvalidConfig(
            [f"{text!r} is not served by windlass.core; give a directory"],
            what="checkpoint_storage",
        )
    return Path(parts.path).expanduser().absolute()


def _shared_fs_base(
    config: Mapping[str, Any], on_cluster: bool, environ: Mapping[str, str]
) -> Path:
    host_path = str(config.get("host_path") or "")
    if not host_path.startswith("/"):
        raise InvalidConfig(
            [f"host_path: must be an absolute path, not {host_path!r}"], what="checkpoint_storage"
        )
    inside = environ.get(SHARED_FS_VARIABLE) or SHARED_FS_CONTAINER_PATH
    root = Path(inside if on_cluster else host_path)
    host_root = os.path.normpath(host_path)
    full = os.path.normpath(Path(host_path) / str(config.get("storage_path") or ""))
    if full != host_root and not full.startswith(host_root.rstrip("/") + "/"):
        raise InvalidConfig(
            [f"storage_path: {config['storage_path']!r} is not below host_path {host_path!r}"],
            what="checkpoint_storage",
        )
    return root / os.path.relpath(full, host_root)
