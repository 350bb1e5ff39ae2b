"""What a node asks of the relay where it cannot connect to it: a file in the folder of the jobs, which both see.

ROOT/asks/JOB.NODE.json    the ask: `srun`, a pipe into the job by Slurm; or `files`, a box in the job's directory
ROOT/asks/JOB.NODE.taken   the same, once a relay serves it
ROOT/asks/JOB.NODE.why     what came of it, if nothing did
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from agent_bootstrap.channels.tickets import name_of, node_folder
from windlass.base.files import write_atomic

FOLDER = "asks"
_JOB = re.compile(r"\d{1,19}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_SESSION = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportRequest:
    way: Literal["srun", "files"]
    node: str
    """JOB/NODE."""
    session: str
    """New with each ask."""
    job_id: str = ""
    host: str = ""
    """Of `srun`: the node, as Slurm calls it."""

    def write(self, root: Path) -> None:
        """Raises OSError."""
        (root / FOLDER).mkdir(mode=0o700, exist_ok=True)
        self._why(root).unlink(missing_ok=True)
        write_atomic(self._file(root), json.dumps(asdict(self)).encode())

    def take_back(self, root: Path) -> None:
        """This one: the node may ask for another way by now, in files of the same names."""
        with suppress(OSError):
            mine = [file for file in (self._file(root), self._taken(root)) if _read(file) == self]
            for file in mine:
                file.unlink(missing_ok=True)
            if not self._file(root).exists() and not self._taken(root).exists():
                self._why(root).unlink(missing_ok=True)

    def stands(self, root: Path) -> bool:
        return self in (_read(self._file(root)), _read(self._taken(root)))

    def take(self, root: Path) -> None:
        """It is served from now on, until whoever serves it ends."""
        with suppress(OSError):
            self._file(root).replace(self._taken(root))

    def answer(self, root: Path, why: str) -> None:
        with suppress(OSError):
            write_atomic(self._why(root), why.encode())
            if not self.stands(root):  # nobody waits for it, and nobody else removes it
                self._why(root).unlink(missing_ok=True)

    def why(self, root: Path) -> str:
        with suppress(OSError):
            return self._why(root).read_text(errors="replace")
        return ""

    def folder(self, root: Path) -> Path | None:
        """Of the node. None: its job is over."""
        folder = node_folder(root, self.node)
        return folder if folder is not None and folder.is_dir() else None

    def _file(self, root: Path) -> Path:
        return root / FOLDER / f"{self._name}.json"

    def _taken(self, root: Path) -> Path:
        return root / FOLDER / f"{self._name}.taken"

    def _why(self, root: Path) -> Path:
        return root / FOLDER / f"{self._name}.why"

    @property
    def _name(self) -> str:
        return self.node.replace("/", ".")


def asks_in(root: Path) -> Iterator[TransportRequest]:
    """Those that can be read. Blocks."""
    with suppress(OSError):
        for file in (*(root / FOLDER).glob("*.taken"), *(root / FOLDER).glob("*.json")):
            ask = _read(file)
            if ask is not None and ask._name == file.stem:
                yield ask


def forget_taken(root: Path) -> None:
    """Whoever was served by somebody before us asks again. Blocks."""
    with suppress(OSError):
        for file in (root / FOLDER).glob("*.taken"):
            file.unlink(missing_ok=True)


def node_of(folder: Path) -> str:
    return name_of(folder)


def _read(file: Path) -> TransportRequest | None:
    try:
        told: Any = json.loads(file.read_bytes())
        ask = TransportRequest(**told)
        if ask.way not in ("srun", "files") or not isinstance(ask.node, str):
            return None
        if not _SESSION.fullmatch(ask.session):
            return None
        if ask.way == "srun" and not (_JOB.fullmatch(ask.job_id) and _HOST.fullmatch(ask.host)):
            return None
    except (OSError, ValueError, TypeError):
        return None
    return ask
