"""The processes of one local cluster: start, look at, end. Named by pid and start time, never by guess."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.base.errors import WindlassError
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.processes import end, start_detached
from windlass.deploy.local.records import ProcessRecord, ServiceSpec, ServiceState

MASTER = "master"
KEEPER_S = 10.0
"""How long a keeper may take to say that it is there."""
KEEPER_GRACE_S = 25.0
"""It gives its process 15 s."""
POLL_S = 0.02


class StartFailed(WindlassError):
    code = "start_failed"


class Condition(StrEnum):
    RUNNING = "running"
    UNKEPT = "running, not kept"
    """Its keeper was killed: it will not be started again."""
    RESTARTING = "restarting"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class LocalService:
    """A process, and the keeper above it. `keeper` None: of a release that had none."""

    name: str
    keeper: ProcessRecord | None
    process: ProcessRecord | None
    restarts: int = 0
    ended: str = ""

    @property
    def condition(self) -> Condition:
        kept = self.keeper is not None and self.keeper.is_alive
        runs = self.process is not None and self.process.is_alive
        if kept:
            return Condition.RUNNING if runs else Condition.RESTARTING
        return Condition.UNKEPT if runs else Condition.GONE

    @property
    def is_alive(self) -> bool:
        return self.condition is not Condition.GONE

    @property
    def records(self) -> list[ProcessRecord]:
        return [record for record in (self.keeper, self.process) if record is not None]


class LocalServices:
    """Of one folder. Whoever changes something holds `ClusterFolder.locked()`."""

    def __init__(self, folder: ClusterFolder, older: Sequence[ProcessRecord] = ()) -> None:
        """`older`: processes without keepers, as `cluster.json` of release 0.1 names them."""
        self._folder = folder
        self._dir = folder.services
        self._older = {record.name: record for record in older}

    def all(self) -> list[LocalService]:
        """The master first."""
        kept = {path.stem for path in self._dir.glob("*.json")}
        return sorted(map(self.of, kept | self._older.keys()), key=_order)

    def alive(self) -> list[LocalService]:
        return [service for service in self.all() if service.is_alive]

    def of(self, name: str) -> LocalService:
        state = ServiceState.read(self._dir, name)
        if state is not None:
            return LocalService(name, state.keeper, state.process, state.restarts, state.ended)
        return LocalService(name, None, self._older.get(name))

    def specs(self) -> list[ServiceSpec]:
        return [ServiceSpec.read(self._dir, path.stem) for path in self._dir.glob("*.json")]

    def start(self, spec: ServiceSpec, environ: Mapping[str, str]) -> None:
        """Returns when the process and its keeper are there. Raises StartFailed."""
        for folder in (self._dir, spec.log.parent):
            folder.mkdir(exist_ok=True, mode=0o700)
        (self._dir / f"{spec.name}.state").unlink(missing_ok=True)
        self._older.pop(spec.name, None)
        spec.write(self._dir)
        command = [sys.executable, "-P", "-m", "windlass.deploy.local.keeper"]
        keeper = start_detached(spec.name, [*command, str(self._dir), spec.name], spec.log, environ)
        deadline = time.monotonic() + KEEPER_S
        while not self._is_started(spec.name, keeper):
            if not keeper.is_alive or time.monotonic() > deadline:
                end([keeper])
                raise StartFailed(f"Cannot start {spec.name}; see {spec.log}")
            time.sleep(POLL_S)

    def _is_started(self, name: str, keeper: ProcessRecord) -> bool:
        service = self.of(name)
        return service.keeper == keeper and bool(service.process or service.ended)

    def stop(self, names: Collection[str]) -> list[str]:
        """End them all at once, the keepers first: they start nothing again. Returns the names of what ran."""
        ran = [service.name for service in self.alive() if service.name in names]
        services = [service for service in self.all() if service.name in names]
        end([s.keeper for s in services if s.keeper is not None], grace_s=KEEPER_GRACE_S)
        # Look again: a keeper may have started another process just before.
        processes = [self.of(service.name).process for service in services]
        end([process for process in processes if process is not None])
        return ran

    def forget(self, names: Collection[str]) -> None:
        """What ran and does so no more."""
        for name in names:
            self._older.pop(name, None)
            for suffix in ("json", "state", "lock"):
                (self._dir / f"{name}.{suffix}").unlink(missing_ok=True)


def _order(service: LocalService) -> tuple[bool, str, int]:
    """agent-10 comes after agent-9."""
    stem, number = re.fullmatch(r"(.*?)(\d*)", service.name, re.DOTALL).groups()  # type: ignore[union-attr]
    return service.name != MASTER, stem, int(number or 0)


def clean_environment() -> dict[str, str]:
    """Ours, without the variables that would mean something else to a master or an agent."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DET_")}
