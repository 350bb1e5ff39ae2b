"""What was submitted as pilots: one small file each, written before the site is asked.

A job carries its name alone; everything else that must be known of it after a crash is here. Nothing secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from pydantic import TypeAdapter, ValidationError

from provisioner.batch.base import task_name
from provisioner.batch.disks import Disk
from provisioner.batch.job_files import JobFiles, JobShape
from provisioner.leases.job_record import JobRecord, agents_of, in_doubt
from provisioner.providers.base import LaunchIntent
from provisioner.providers.pilots.offers import staggered
from windlass.base.files import write_atomic

SHAPES = TypeAdapter(JobShape)
"""As they are in requests: plain JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot(JobRecord):
    """One job of one launch, which its tag is made of. `ends_at` is as the site first said it."""

    format: int = 1
    may_run: bool = True
    """A record is written before the call."""
    intent: LaunchIntent
    written_at: float
    array: str = ""
    """The name of the array that it was submitted with. Empty: it is a job by itself."""
    number: int = 0
    """There."""
    ran: bool = False
    """It had nodes: its machines existed."""
    cancelled: bool = False
    """By us: nobody waits for it."""
    refused: str = ""
    """Why the site, which took it, will never start it."""
    over_at: float | None = None
    """Since when it is certainly over; what its agents left in its directory is being told."""
    disabled: tuple[str, ...] = ()
    """Its nodes that an operator had disabled when it was last looked at."""
    unused: tuple[str, ...] = ()
    """Its agents on nodes that were disabled before it came: they get no work."""
    bad_before: float = 0.0
    """Bad ends of tasks from then on may be those of the job."""
    ended_at: float | None = None
    """Since when it is over, and nothing more is to be told."""
    how: str = ""
    """How it ended, for people."""

    @property
    def pool(self) -> str:
        return self.intent.pool

    @property
    def job_name(self) -> str:
        return task_name(self.array, self.number) if self.array else self.tag

    @property
    def shape(self) -> JobShape:
        """Jobs of an array have one time limit."""
        frozen = SHAPES.validate_python(self.intent.request["shape"])
        return frozen if self.array else staggered(frozen, self.intent.token)

    @property
    def leaves_early_s(self) -> float:
        """So much before the time limit of its array its work leaves, for others end with it."""
        if not self.array:
            return 0.0  # asked of each pilot at every look
        shape = self.shape
        own_s = staggered(shape, self.intent.token).walltime_s
        if shape.walltime_s is None or own_s is None:
            return 0.0
        return max(0.0, shape.walltime_s - own_s)

    @property
    def agents(self) -> tuple[str, ...]:
        return agents_of(self.tag, self.intent.count)

    def files_on(self, disk: Disk) -> JobFiles:
        """Where they were when it was decided."""
        request = self.intent.request
        return JobFiles(
            root=Path(str(request["root"])),
            python=str(request["python"]),
            agent=request["agent"],
            prologue=tuple(request.get("prologue", ())),
            disk=disk,
        )


_PILOT = TypeAdapter(Pilot)


class PilotBook:
    """All that are not over for long. Blocking, in whichever thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writing = Lock()
        self._pilots = {pilot.tag: pilot for pilot in _read_all(folder)}

    def __iter__(self) -> Iterator[Pilot]:
        return iter(list(self._pilots.values()))

    def get(self, tag: str) -> Pilot | None:
        return self._pilots.get(tag)

    def put(self, pilot: Pilot, step: Callable[[Pilot], Pilot] = lambda one: one) -> Pilot:
        """On disk, then here; as it is then. Raises OSError.

        The step is made from what is known of it by then: lists and calls make them at the same time.
        """
        with self._writing:
            known = self._pilots.get(pilot.tag)
            new = step(known or pilot)
            if new == known:
                return new
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(self._path(new.tag), _PILOT.dump_json(new), durable=True)
            self._pilots[new.tag] = new
            return new

    def drop(self, tag: str) -> None:
        with self._writing:
            self._path(tag).unlink(missing_ok=True)
            self._pilots.pop(tag, None)

    def _path(self, tag: str) -> Path:
        return self._folder / f"{tag}.json"


def _read_all(folder: Path) -> Iterator[Pilot]:
    """The site was not heard meanwhile."""
    for path in sorted(folder.glob("*.json")) if folder.exists() else ():
        try:
            yield in_doubt(_PILOT.validate_json(path.read_bytes()))
        except (OSError, ValidationError) as error:
            raise OSError(f"the record of a batch job cannot be read: {path}: {error}") from None
