"""The files that pages are made of, under an address that changes with them: browsers keep them for ever."""

from __future__ import annotations

import gzip
import hashlib
import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

STATIC = Path(__file__).parent / "static"
RELOAD = "WINDLASS_WEBUI_RELOAD"
"""Set in the environment of a master: files that change are read again. For who writes pages."""
TYPES = {".css": "text/css", ".js": "text/javascript"}
_STATIC_IMPORT = re.compile(r'^(?:import|export)\b[^;"()]*?"(\.[^"]+)"|\bfrom"(\.[^"]+)"', re.M)
_SMALL_BYTES = 256
"""Less than this gains nothing from compression."""


@dataclass(frozen=True, slots=True)
class Asset:
    content: bytes
    compressed: bytes | None
    media_type: str


@dataclass(frozen=True)
class Assets:
    """One state of the files."""

    files: Mapping[str, Asset]

    @cached_property
    def version(self) -> str:
        named = [(name, asset.content) for name, asset in sorted(self.files.items())]
        return hashlib.sha256(repr(named).encode()).hexdigest()[:16]

    @cached_property
    def imports(self) -> Mapping[str, tuple[str, ...]]:
        """What each module imports at once; not what it may ask for later."""
        return {
            name: tuple(
                posixpath.normpath(posixpath.join(posixpath.dirname(name), found[0] or found[1]))
                for found in _STATIC_IMPORT.findall(asset.content.decode())
            )
            for name, asset in self.files.items()
            if name.endswith(".js")
        }

    def modules_of(self, *modules: str) -> list[str]:
        """These and all that they import, each once: a browser need not find them one after the other."""
        found = dict.fromkeys(modules)
        for name in (waiting := list(found)):
            for imported in self.imports.get(name, ()):
                if imported not in found:
                    found[imported] = None
                    waiting.append(imported)
        return list(found)


def read_assets(folder: Path = STATIC) -> Assets:
    return Assets(
        {
            path.relative_to(folder).as_posix(): _asset(path.read_bytes(), TYPES[path.suffix])
            for path in sorted(folder.rglob("*"))
            if path.suffix in TYPES
        }
    )


def _asset(content: bytes, media_type: str) -> Asset:
    compressed = gzip.compress(content, 9, mtime=0) if len(content) > _SMALL_BYTES else None
    return Asset(content, compressed, media_type)


class AssetFolder:
    """Reads once; again after a change, if it is told to."""

    def __init__(self, folder: Path = STATIC, *, reload: bool = False) -> None:
        self._folder = folder
        self.reloads = reload
        self._seen = self._changes()
        self._assets = read_assets(folder)

    def current(self) -> Assets:
        if self.reloads and (seen := self._changes()) != self._seen:
            self._seen, self._assets = seen, read_assets(self._folder)
        return self._assets

    def _changes(self) -> frozenset[tuple[str, int]]:
        return frozenset(
            (str(path), path.stat().st_mtime_ns)
            for path in self._folder.rglob("*")
            if path.suffix in TYPES
        )


ASSETS = AssetFolder(reload=bool(os.environ.get(RELOAD)))
