"""The directory of one container: all that an agent knows about it, so that the next agent can take over.

work_dir/
  agent.lock  epoch.json
  containers/<container id>/            0700, one per container until the master forgets it
    container.json                      who it is
    verdict.json                        how it ended, once decided
    shipped                             byte offset up to which the master has its output
    killed                              exists once a kill was asked for
    rundet/ tmp/ files/                 the task's own tree: /run/determined, /tmp, other files
    spec.json supervisor.json output.log exit.json      see supervisor/supervisor.py
  trash/                                on its way out
  unreadable/                           containers whose container.json this release cannot read, kept for people
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from agent_bootstrap.protocol import ContainerSpec, ExitRecord, Message
from agent_bootstrap.supervisor.protocol import KILL_SIGNAL
from windlass.base.errors import Conflict, InvalidArgument, UnreadableDocument
from windlass.base.files import write_atomic
from windlass.base.processes import ProcessName, boot_id, send, wait_gone

log = logging.getLogger(__name__)
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
"""What file systems without locks answer: some of Lustre, some of NFS."""
SCRATCH = "windlass-"
"""How folders of containers on other disks are called, before the container's id."""
FORMAT = 1
"""Of `container.json`. A higher number is of a newer release, and not read."""
END_S = 10.0
"""How long the supervisor of an unreadable container may take to end its task."""
_SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


class ContainerRecord(Message):
    """Who a container is. Not secret, but kept private like all of its directory."""

    format: int = FORMAT
    container_id: str
    allocation_id: str
    task_id: str
    slot_ids: tuple[int, ...] = ()
    slots_by_index: bool = False
    """The numbers are those of GPUs in the machine. Before 0.2: of those that the agent offered."""
    boot_id: str

    @classmethod
    def of(cls, spec: ContainerSpec) -> ContainerRecord:
        return cls(
            container_id=spec.container_id,
            allocation_id=spec.allocation_id,
            task_id=spec.task_id,
            slot_ids=spec.slot_ids,
            slots_by_index=True,
            boot_id=boot_id(),
        )


@dataclass(frozen=True, slots=True)
class ContainerDir:
    """Paths and small files of one container."""

    path: Path

    @property
    def rundet(self) -> Path:
        return self.path / "rundet"

    @property
    def tmp(self) -> Path:
        """Where it really is: see `make_tmp`."""
        own = self.path / "tmp"
        return own.readlink() if own.is_symlink() else own

    @property
    def scratch(self) -> Path | None:
        """What of it is elsewhere on the node."""
        elsewhere = self.tmp.parent
        return elsewhere if elsewhere.name.startswith(SCRATCH) else None

    def make_tmp(self, base: Path | None) -> None:
        """Below `base`, where that is given; then there is a link, made first so that nothing is forgotten."""
        if base is not None:
            folder = base / f"{SCRATCH}{self.path.name}"
            (self.path / "tmp").symlink_to(folder / "tmp")
            folder.mkdir(mode=0o700)
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)

    def drop_scratch(self) -> None:
        if (scratch := self.scratch) is not None:
            remove_tree(scratch)

    @property
    def files(self) -> Path:
        return self.path / "files"

    @property
    def spec(self) -> Path:
        return self.path / "spec.json"

    @property
    def output(self) -> Path:
        return self.path / "output.log"

    def create(self, record: ContainerRecord) -> None:
        self.path.mkdir(mode=0o700)
        write_atomic(self.path / "container.json", record.model_dump_json().encode())

    def record(self) -> ContainerRecord | None:
        """None: it was never whole. Raises UnreadableDocument."""
        path = self.path / "container.json"
        try:
            record = ContainerRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise UnreadableDocument(str(path), " ".join(str(error).split())) from None
        if record.format > FORMAT:
            raise UnreadableDocument(str(path), f"it has format {record.format}")
        if record.container_id != self.path.name:
            raise UnreadableDocument(str(path), f"it is of container {record.container_id}")
        return record

    def verdict(self) -> ExitRecord | None:
        try:
            return ExitRecord.model_validate_json((self.path / "verdict.json").read_bytes())
        except (OSError, ValidationError):
            return None

    def write_verdict(self, verdict: ExitRecord) -> None:
        write_atomic(self.path / "verdict.json", verdict.model_dump_json().encode())

    def shipped(self) -> int:
        try:
            return int((self.path / "shipped").read_text())
        except (OSError, ValueError):
            return 0

    def write_shipped(self, offset: int) -> None:
        write_atomic(self.path / "shipped", str(offset).encode())

    def mark_killed(self) -> None:
        (self.path / "killed").touch(mode=0o600)

    def was_killed(self) -> bool:
        return (self.path / "killed").exists()

    def read_json(self, name: str) -> dict[str, object] | None:
        """A file of the supervisor; None if it is not there."""
        try:
            value = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None


class ContainerDirs:
    """All containers of one agent on disk."""

    def __init__(self, work_dir: Path) -> None:
        work_dir = work_dir.absolute()  # supervisors do not share the agent's current directory
        self._work_dir = work_dir
        self._containers = work_dir / "containers"
        self._trash = work_dir / "trash"
        self._aside = work_dir / "unreadable"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the directories, and keep other agents out of them."""
        for directory in (self._work_dir, self._containers, self._trash):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._work_dir / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(f"another agent uses {self._work_dir}: give --work-dir") from None
            except OSError as error:  # in batch jobs the directory is of one node of one job anyway
                if error.errno not in NO_LOCKS:
                    raise
                log.warning("%s: its file system has no locks (%s)", self._work_dir, error.strerror)
            yield
        finally:
            os.close(lock)

    def of(self, container_id: str) -> ContainerDir:
        if not _SAFE_ID.fullmatch(container_id):
            raise InvalidArgument(f"container id {container_id!r} cannot name a directory")
        return ContainerDir(self._containers / container_id)

    def load(self) -> list[ContainerRecord]:
        """Every container that is whole; leftovers of interrupted work are swept, what cannot be read is set aside."""
        records = []
        for path in sorted(self._containers.iterdir()):
            try:
                record = ContainerDir(path).record()
            except UnreadableDocument as error:
                log.error("%s; its task is ended, and the directory kept in %s", error, self._aside)
                self._set_aside(path)
                continue
            if record is not None:
                records.append(record)
            else:
                log.warning("swept a leftover directory: %s", path)
                self._discard(path)
        for path in self._trash.iterdir():
            ContainerDir(path).drop_scratch()
            remove_tree(path)
        return records

    def remove(self, container_id: str) -> None:
        """Forget it. A crash in between leaves it in the trash, which is emptied at the next start."""
        path = self.of(container_id).path
        if path.exists():
            self._discard(path)

    def _set_aside(self, path: Path) -> None:
        """Nobody could look after its task, and the slots are free for another one."""
        who = ContainerDir(path).read_json("supervisor.json")
        with suppress(KeyError, TypeError, ValueError):
            if who is not None:
                pid, ticks = int(str(who["pid"])), int(str(who["start_time"]))
                supervisor = ProcessName(pid, ticks, str(who["boot_id"]))
                send(supervisor, KILL_SIGNAL)
                wait_gone(supervisor, END_S)
        self._aside.mkdir(mode=0o700, exist_ok=True)
        remove_tree(self._aside / path.name)
        path.rename(self._aside / path.name)

    def _discard(self, path: Path) -> None:
        target = self._trash / path.name
        remove_tree(target)
        path.rename(target)
        ContainerDir(target).drop_scratch()
        remove_tree(target)


def remove_tree(path: Path) -> None:
    """Remove it, though a task may have made directories that their owner cannot write. What resists is left."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        if (
            path.exists() and os.geteuid() != 0
        ):  # root needs no permission, and may be led astray by links
            for directory, _, _ in os.walk(path):
                with suppress(OSError):  # the supervisor may be removing it, too
                    Path(directory).chmod(0o700)
            shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    if path.exists():
        log.warning("cannot remove %s", path)
