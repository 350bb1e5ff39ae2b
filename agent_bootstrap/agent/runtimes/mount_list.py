"""What a task's root is made of: a list of mounts, the same for bubblewrap and for the built-in way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["bind", "tmpfs", "directory", "link", "seal", "hide", "device", "proc", "dev"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One step; later ones lie on top of earlier ones. Paths are absolute.

    bind: `source` of the machine at `target`. tmpfs: an empty folder with `mode`, of `size` bytes (0: the kernel's
    default). directory: a plain one. link: `target` says `source`. seal: nothing new can be made in the mount at
    `target`. hide: what is there looks empty. device: the machine's device node of that path. proc: an own /proc.
    dev: a minimal /dev, its /dev/shm of `size` bytes.
    """

    kind: Kind
    target: str
    source: str = ""
    read_only: bool = False
    by_user: bool = False
    """The user named it: mounted with this user's rights, and a failure is the user's."""
    private: bool = False
    """With the agent's rights: another user may not be able to reach it."""
    exact: bool = False
    """No part of `source` was a link when it was checked. One that is by now was put there by a task: refused."""
    mode: int = 0o755
    size: int = 0


def for_spec(mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """As `supervisor/private_root.py` reads them."""
    return [asdict(mount) for mount in mounts]


def staged_sources(mounts: Sequence[Mount]) -> list[tuple[str, bool]]:
    """What has to be put where another user can reach it, and whether it is exact."""
    return [(mount.source, mount.exact) for mount in mounts if mount.private]


def is_in(path: str, folder: str) -> bool:
    """Or the folder itself."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
