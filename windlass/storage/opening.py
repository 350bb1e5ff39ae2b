"""From a `checkpoint_storage` section to a Storage, and whether that can be used."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from windlass.base.errors import InvalidConfig, StorageError
from windlass.storage.base import Storage
from windlass.storage.buckets.trust import require_trusted
from windlass.storage.local import LocalStorage
from windlass.storage.patience import TRANSFERS, Patience

_PROBE, _CONTENT = "probe", b"written to see whether checkpoints can be stored\n"


def open_storage(
    config: Mapping[str, Any] | str,
    *,
    shared_fs_at: Path | None = None,
    patience: Patience = TRANSFERS,
    trusted_hosts: Collection[str] | None = None,
) -> Storage:
    """The storage of a `checkpoint_storage` section, or of a path or URL (`/path`, `s3://bucket/prefix`, `gs://...`).

    `shared_fs_at`: where this process sees what is `host_path` on its host. The storage is not asked for anything yet.
    `trusted_hosts`: for a section that somebody else wrote. The identity of this machine is then sent to the provider
    and to these hosts alone (UntrustedAddress).
    Raises InvalidConfig, and StorageError where obstore is missing or there is nothing to log in with.
    """
    section = _section(config) if isinstance(config, str) else config
    if trusted_hosts is not None:
        require_trusted(section, trusted_hosts, os.environ)
    match section.get("type"):
        case "shared_fs":
            return LocalStorage(shared_fs_path(section, shared_fs_at))
        case "directory":
            return LocalStorage(Path(_required(section, "container_path")))
        case "s3":
            from windlass.storage.buckets.s3 import open_s3

            return open_s3(section, os.environ, patience)
        case "gcs":
            from windlass.storage.buckets.gcs import open_gcs

            return open_gcs(section, os.environ, patience)
        case "azure":
            from windlass.storage.buckets.azure import open_azure

            return open_azure(section, os.environ, patience)
        case other:
            raise _invalid(f"type: {other!r} is none of shared_fs, directory, s3, gcs and azure")


def require_usable(storage: Storage) -> None:
    """Write, list, read and delete a small file. Raises StorageError, and leaves nothing behind."""
    folder = f"windlass-check-{os.urandom(16).hex()}"
    try:
        storage.write(folder, _PROBE, _CONTENT)
        found = b"".join(storage.read(folder, _PROBE))
        if found != _CONTENT or storage.files(folder) != {_PROBE: len(_CONTENT)}:
            raise StorageError(f"{storage.where} does not hold what was just written to it")
    except BaseException:
        with suppress(StorageError):  # what got no answer may have arrived
            storage.delete(folder)
        raise
    storage.delete(folder)


def shared_fs_path(config: Mapping[str, Any], seen_at: Path | None) -> Path:
    """The directory of a `shared_fs` section on this machine, or below `seen_at`. Raises InvalidConfig."""
    host_path = str(config.get("host_path") or "")
    if not host_path.startswith("/"):
        raise _invalid(f"host_path: must be an absolute path, not {host_path!r}")
    host_root = os.path.normpath(host_path)
    full = os.path.normpath(Path(host_path) / str(config.get("storage_path") or ""))
    if full != host_root and not full.startswith(host_root.rstrip("/") + "/"):
        raise _invalid(
            f"storage_path: {config['storage_path']!r} is not below host_path {host_path!r}"
        )
    return (seen_at or Path(host_path)) / os.path.relpath(full, host_root)


def storage_section(config: Mapping[str, Any] | str) -> dict[str, Any]:
    """As a section of a configuration, whichever way it was given. Raises InvalidConfig."""
    if not isinstance(config, str):
        return dict(config)
    section = _section(config)
    if section["type"] != "directory":
        return section
    return {"type": "shared_fs", "host_path": section["container_path"]}


def _section(text: str) -> dict[str, Any]:
    parts = urlsplit(text)
    if parts.query or parts.fragment:
        raise _invalid(f"{text!r}: a storage has no query and no fragment")
    match parts.scheme:
        case "" | "file":
            if parts.netloc:
                raise _invalid(f"{text!r}: names a machine; give a path, as in file:///path")
            return {
                "type": "directory",
                "container_path": str(Path(parts.path).expanduser().absolute()),
            }
        case "s3" | "gs":
            kind = "s3" if parts.scheme == "s3" else "gcs"
            return {"type": kind, "bucket": parts.netloc, "prefix": parts.path.lstrip("/")}
        case other:
            raise _invalid(f"{text!r}: {other} is none of s3, gs and file; or give a path")


def _required(config: Mapping[str, Any], key: str) -> str:
    if not config.get(key):
        raise _invalid(f"{key}: is required")
    return str(config[key])


def _invalid(problem: str) -> InvalidConfig:
    return InvalidConfig([problem], what="checkpoint_storage")
