"""The folder that all machines of a site see: what is where, and where the master runs.

DIR/master.yaml    what the master does; written once
DIR/master.json    on which machine it is, and its URL
DIR/jobs/          directories of batch jobs
DIR/checkpoints/
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from master.hpc.site.file_systems import is_open_to_others
from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.files import write_atomic


class MasterRecord(BaseModel):
    """Content of master.json: the master of this folder, which runs or did so."""

    model_config = ConfigDict(frozen=True)

    host: str
    """The machine whose disk has its data."""
    folder: Path
    """There: the data, logs, and what is known of its process."""
    url: str
    cluster_id: str
    system: str
    """slurm or pbs."""
    path: str = ""
    """Where the commands of the batch system are."""
    job: str = ""
    """The name of the batch job that it is, if it is one: then the folder is shared, and `host` is a node."""
    is_up: bool = True
    """As far as `windlass hpc` knows."""


@dataclass(frozen=True, slots=True)
class MasterFolder:
    path: Path

    @property
    def master_yaml(self) -> Path:
        return self.path / "master.yaml"

    @property
    def record(self) -> Path:
        return self.path / "master.json"

    def make(self) -> None:
        """For its user alone; what is there stays as open as its user made it. Raises InvalidArgument."""
        try:
            for folder in (self.path, self.path / "jobs", self.path / "checkpoints"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(
                f"{self.path} cannot be made ({error.strerror}): give another with --dir"
            ) from None

    def running(self) -> MasterRecord | None:
        """None: no master was ever started here. Raises Conflict for a damaged record."""
        try:
            return MasterRecord.model_validate_json(self.record.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError):
            raise Conflict(
                f"{self.record} is damaged: end the master by hand, and remove the file"
            ) from None

    def note(self, running: MasterRecord) -> None:
        write_atomic(self.record, running.model_dump_json(indent=2).encode(), durable=True)


def find_place(given: Path | None) -> tuple[MasterFolder, MasterRecord] | None:
    """A master that was started before, which may have ended.

    $PROJECT and $SCRATCH may be of many users. What others can write there is not read: it names programs that are run.
    Raises Conflict if it is the folder that was given.
    """
    for path in _places(given):
        if is_open_to_others(path):
            if given is None:
                continue
            raise Conflict(
                f"{path} is a link, belongs to another user or may be written by others: give a folder of your own "
                "with --dir, or chmod go-w it"
            )
        place = MasterFolder(path)
        if (running := place.running()) is not None:
            return place, running
    return None


def known_place(given: Path | None) -> tuple[MasterFolder, MasterRecord]:
    """Raises InvalidArgument where no master was ever started."""
    if (found := find_place(given)) is not None:
        return found
    words = ", ".join(map(str, _places(given)))
    raise InvalidArgument(
        f"no master of yours was started in {words}: start one with `windlass hpc up`, or give its --dir"
    )


def _places(given: Path | None) -> list[Path]:
    """In the order in which `up` looks for one."""
    if given is not None:
        return [given.absolute()]
    variables = ("WORK", "PROJECT", "SCRATCH")
    roots = [Path.home(), *(Path(os.environ[name]) for name in variables if os.environ.get(name))]
    return [root / "windlass" for root in roots]
