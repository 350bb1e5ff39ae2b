"""Bytecode of the modules that run before every task, readable by all who may read their source.

Python writes bytecode when a module is first imported, with the umask of that process: agents and supervisors keep what
they write to themselves. Tasks of other users would compile those modules again at each start, which takes longer than
all else that a task waits for.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import agent_bootstrap

FOLDERS = (
    *("windlass", "windlass/base", "windlass/base/formats", "windlass/base/tls", "windlass/core"),
    *("windlass/launch", "windlass/launch/services", "windlass/sdk", "windlass/storage"),
    *("windlass/storage/buckets", "agent_bootstrap", "agent_bootstrap/supervisor"),
)
"""Whose modules the launcher and its parent process import."""


def share_bytecode(root: Path = Path(agent_bootstrap.__file__).parent.parent) -> None:
    """Of sources below `root` that belong to our user. Where nothing can be written, nothing is done. Blocks."""
    if sys.dont_write_bytecode or sys.pycache_prefix:
        return
    for folder in FOLDERS:
        for source in sorted((root / folder).glob("*.py")):
            with suppress(OSError):
                if source.stat().st_uid == os.geteuid():
                    _share(source)


def _share(source: Path) -> None:
    """Raises OSError."""
    if not compileall.compile_file(source, quiet=2):
        return
    compiled = Path(importlib.util.cache_from_source(source))
    _open_as(source.parent, compiled.parent)
    _open_as(source, compiled)


def _open_as(model: Path, ours: Path) -> None:
    """Whoever may read `model` may read `ours`, which was made of it. A link is left alone: it may lead anywhere."""
    wanted, found = model.stat(), ours.lstat()
    reading = stat.S_IMODE(wanted.st_mode) & 0o555
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid() or not reading & ~found.st_mode:
        return
    ours.chmod(stat.S_IMODE(found.st_mode) | reading)
