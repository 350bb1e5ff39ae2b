"""What is on disk of each process of a local cluster: what it runs, and how it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from windlass.base.errors import Conflict
from windlass.base.files import write_atomic
from windlass.base.processes import ProcessName, boot_id, is_running, start_time


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process for ever: `started` is its start in clock ticks after the boot named `boot_id`."""

    name: str
    pid: int
    started: int
    boot_id: str

    @property
    def process(self) -> ProcessName:
        return ProcessName(self.pid, self.started, self.boot_id)

    @property
    def is_alive(self) -> bool:
        return is_running(self.process)


def record_of(name: str, pid: int) -> ProcessRecord:
    """Of a process that runs now."""
    ticks = start_time(pid)
    return ProcessRecord(name, pid, -1 if ticks is None else ticks, boot_id())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """What a keeper runs, in `NAME.json`."""

    name: str
    command: list[str]
    log: Path
    environ: dict[str, str] = field(default_factory=dict)
    """Besides what `det deploy` itself was given."""
    autorestart: bool = True
    by_agent_up: bool = False
    """An agent that `cluster-up` did not start."""

    @classmethod
    def read(cls, services: Path, name: str) -> ServiceSpec:
        path = services / f"{name}.json"
        with _readable(path):
            content = dict(json.loads(path.read_bytes()))
            return cls(**{**content, "log": Path(content["log"])})

    def write(self, services: Path) -> None:
        content = {**asdict(self), "log": str(self.log)}
        write_atomic(services / f"{self.name}.json", json.dumps(content).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """How it goes, in `NAME.state`, which only its keeper writes."""

    keeper: ProcessRecord
    process: ProcessRecord | None = None
    restarts: int = 0
    ended: str = ""
    """How the last process ended."""

    @classmethod
    def read(cls, services: Path, name: str) -> ServiceState | None:
        """None: its keeper has not said anything yet."""
        path = services / f"{name}.state"
        if not path.exists():
            return None
        with _readable(path):
            content = dict(json.loads(path.read_bytes()))
            process = content["process"]
            content["keeper"] = ProcessRecord(**content["keeper"])
            content["process"] = ProcessRecord(**process) if process else None
            return cls(**content)

    def write(self, services: Path, name: str) -> None:
        write_atomic(services / f"{name}.state", json.dumps(asdict(self)).encode())


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError):
        raise Conflict(f"{path} is damaged: remove it, and end its processes by hand") from None
