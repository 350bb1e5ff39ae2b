"""The /tmp of tasks on a disk of the node, where the agent's own directory is on a file system that nodes share.

BASE/windlass-<container id>/tmp     removed with the task; what a kill of everything left, by a later agent there
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_bootstrap.agent.containers.directory import SCRATCH, remove_tree
from windlass.base.processes import marked_processes

OF_JOBS = ("$SLURM_TMPDIR", "$TMPDIR", "/tmp")  # noqa: S108  (of each task a private folder in it)
"""Where it is in batch jobs, if nobody says."""
LEFT_AFTER_S = 600.0
"""A task that is being prepared has no process yet."""
_OF_CONTAINER = re.compile(rf"{SCRATCH}[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}")
"""Containers have UUIDs. Other folders may begin alike: those of people, and where checkpoints are loaded."""

log = logging.getLogger(__name__)


def find_scratch(candidates: Iterable[str], environ: Mapping[str, str]) -> Path | None:
    """The first that is a folder in which we can write; in it variables of the job count. None: none of them."""
    for candidate in candidates:
        path = Path(_expanded(candidate, environ))
        if path.is_absolute() and path.is_dir() and os.access(path, os.W_OK | os.X_OK):
            return path
    return None


def sweep(base: Path) -> None:
    """Remove what tasks of this user left that no longer run. Blocks."""
    for path in base.glob(f"{SCRATCH}*"):
        if not _OF_CONTAINER.fullmatch(path.name):
            continue
        try:
            status = path.lstat()
        except OSError:
            continue
        is_old = time.time() - status.st_mtime > LEFT_AFTER_S
        if status.st_uid != os.geteuid() or path.is_symlink() or not is_old or not path.is_dir():
            continue
        container_id = path.name.removeprefix(SCRATCH)
        if not (path / "tmp").is_dir() or marked_processes("DET_CONTAINER_ID", container_id):
            continue
        log.info("removed what a task left behind: %s", path)
        remove_tree(path)


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """Empty if a variable of it is not set."""
    parts = text.split("/")
    values = [environ.get(part[1:].strip("{}"), "") if part[:1] == "$" else part for part in parts]
    missing = any(part[:1] == "$" and not value for part, value in zip(parts, values, strict=True))
    return "" if missing else "/".join(values)
