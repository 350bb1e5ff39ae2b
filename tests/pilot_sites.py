"""Batch systems on which the tests of pilots run: a real Slurm, and the PBS that replays what was recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

from provisioner.batch.slurm.text import named
from tests.pbs import Pbs, running_pbs
from tests.slurm import Slurm, require_slurm, running_slurm


class PilotSite(Protocol):
    """Two nodes with two slots each."""

    name: str
    provider: Mapping[str, Any]
    """How a pool names it."""

    def jobs(self, state: str = "") -> list[str]:
        """Names of jobs that are not over: `running`, `waiting` or both."""
        ...

    def all_jobs(self) -> list[str]:
        """Names of all that were ever submitted."""
        ...

    def occupy_a_node(self) -> str:
        """Another user's job; its id."""
        ...

    def cancel(self, job_id: str) -> None: ...

    def id_of(self, name: str) -> str: ...

    def excluded_by(self, name: str) -> list[str]:
        """Nodes that it must not use."""
        ...

    def shorten(self, name: str, *, minutes: int = 2) -> None:
        """An administrator leaves it so long, or a minute less: its limit is in whole minutes, from its start."""
        ...

    def settle(self) -> None:
        """No job, and every node as it was."""
        ...


class SlurmSite:
    name = "slurm"
    provider: Mapping[str, Any] = {"type": "slurm", "partition": "gpu"}

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm

    def jobs(self, state: str = "") -> list[str]:
        states = {"": (), "running": ("-t", "RUNNING"), "waiting": ("-t", "PENDING")}[state]
        return list(self._ids(*states))

    def all_jobs(self) -> list[str]:
        return list(self._ids("-t", "all"))

    def submissions(self) -> set[str]:
        """Ids: of an array one."""
        return {id_.partition("_")[0] for id_ in self._ids("-t", "all").values()}

    def _ids(self, *which: str) -> dict[str, str]:
        """By name; those of an array are called as the master calls them."""
        lines = self._slurm.run("squeue", "-h", "-r", "-o", "%i %j", *which).splitlines()
        return {named(id_, name): id_ for id_, name in map(str.split, lines)}

    def occupy_a_node(self) -> str:
        words = ("--parsable", "-w", "n2", "--gres=gpu:2", "--output=/dev/null")
        return self._slurm.run("sbatch", *words, "--wrap=sleep 600").strip()

    def cancel(self, job_id: str) -> None:
        self._slurm.run("scancel", job_id)

    def id_of(self, name: str) -> str:
        return self._ids()[name]

    def excluded_by(self, name: str) -> list[str]:
        return self._slurm.run("squeue", "-h", "-t", "all", "-n", name, "-o", "%x").split()

    def shorten(self, name: str, *, minutes: int = 2) -> None:
        start = self._slurm.run("squeue", "-h", "-j", self.id_of(name), "-o", "%S").strip()
        limit = _limit_in_minutes(datetime.fromisoformat(start).timestamp(), minutes)
        self._slurm.run("scontrol", "update", f"JobId={self.id_of(name)}", f"TimeLimit={limit}")

    def settle(self) -> None:
        self._slurm.settle()


class PbsSite:
    """There are no GPUs here: slots are CPUs, so many that two fill a node."""

    name = "pbs"

    def __init__(self, pbs: Pbs) -> None:
        self._pbs = pbs
        self.provider: Mapping[str, Any] = {
            "type": "pbs",
            "path": pbs.path,
            "slot_type": "cpu",
            "slots_per_node": 2,
            "cpus_per_slot": 4,
        }

    def jobs(self, state: str = "") -> list[str]:
        wanted = {"": "QRHE", "running": "R", "waiting": "Q"}[state]
        return [job["name"] for job in self._states() if job["state"] in wanted]

    def all_jobs(self) -> list[str]:
        return [job["name"] for job in self._states()]

    def occupy_a_node(self) -> str:
        words = ("-N", "theirs", "-o", "/dev/null", "-l", "select=1:ncpus=8")
        return self._pbs.run("qsub", *words, "--", "/bin/sleep", "600").strip()

    def cancel(self, job_id: str) -> None:
        self._pbs.run("qdel", job_id)

    def id_of(self, name: str) -> str:
        return next(str(job["id"]) for job in self._states() if job["name"] == name)

    def excluded_by(self, name: str) -> list[str]:
        return []

    def shorten(self, name: str, *, minutes: int = 2) -> None:
        """What qalter does to the record; there is none in the recordings."""
        file = self._pbs.folder / "state" / f"{self.id_of(name)}.json"
        job = json.loads(file.read_text())
        new = file.with_suffix(".altered")
        limit = _limit_in_minutes(job["stime"], minutes)
        new.write_text(json.dumps(job | {"walltime": f"00:{limit}:00"}))
        new.replace(file)

    def settle(self) -> None:
        for job in self._states():
            if job["state"] != "F":
                self.cancel(str(job["id"]))
        assert self._pbs.unrecorded == []

    def _states(self) -> list[dict[str, Any]]:
        files = self._pbs.folder.glob("state/*.json")
        return [json.loads(file.read_text()) for file in files]


def _limit_in_minutes(start: float, more: int) -> int:
    return int((time.time() - start) // 60) + more


@contextmanager
def running_site(name: str, folder: Path) -> Iterator[PilotSite]:
    folder.chmod(0o755)
    if name == "pbs":
        with running_pbs(folder) as pbs:
            yield PbsSite(pbs)
        return
    require_slurm()
    with running_slurm(folder) as slurm, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        yield SlurmSite(slurm)
