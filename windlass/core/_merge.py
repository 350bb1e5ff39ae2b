"""Putting together what several ranks want to store under one checkpoint, and finding where they disagree. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def merge_metadata(
    parts: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The union of all ranks' metadata, dictionaries merged key by key; and path -> ranks for unequal values."""
    merged: dict[str, Any] = {}
    owners: dict[str, list[int]] = {}
    conflicts: dict[str, list[int]] = {}
    for rank, part in enumerate(parts):
        _merge_into(merged, part, rank, "", owners, conflicts)
    return merged, conflicts


def _merge_into(
    merged: dict[str, Any],
    part: Mapping[str, Any],
    rank: int,
    prefix: str,
    owners: dict[str, list[int]],
    conflicts: dict[str, list[int]],
) -> None:
    for key, value in part.items():
        path = f"{prefix}{key}"
        owners.setdefault(path, []).append(rank)
        if key not in merged:
            merged[key] = {} if isinstance(value, Mapping) else value
        elif isinstance(merged[key], dict) != isinstance(value, Mapping) or (
            not isinstance(value, Mapping) and merged[key] != value
        ):
            conflicts[path] = list(owners[path])
            continue
        if isinstance(value, Mapping):
            _merge_into(merged[key], value, rank, f"{path}/", owners, conflicts)


def merge_files(
    parts: Sequence[Mapping[str, int]],
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The union of all ranks' files (names ending in "/" are directories); and file -> ranks where several have it.

    A name that is a file on one rank and a directory on another is a conflict as well.
    """
    merged: dict[str, int] = {}
    owners: dict[str, list[int]] = {}
    files: set[str] = set()
    for rank, part in enumerate(parts):
        for name, size in part.items():
            merged[name] = size
            owners.setdefault(name.rstrip("/"), []).append(rank)
            if not name.endswith("/"):
                files.add(name)
    return merged, {name: owners[name] for name in sorted(files) if len(owners[name]) > 1}
