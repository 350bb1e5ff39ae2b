"""Instances that are directories with a process on this machine.

    <root>/<instance_id>/instance.json   what it is (the tags), written before the process starts
                        /host.json       what the host process is told; holds the join token, so only the owner reads it
                        /host.state      which process it is, written by the host as its first act
                        /host.log        what the host printed
                        /agent/          the agent's own directory
                        /stopped         it is stopped: its host is not started again until this file is gone
                        /notice          put there by people and tests: so many seconds after this file was written
                                         the site takes the instance back, as a cloud does with spot machines

The directories are the truth, so everything survives a restart of the master. An instance ends when its host process
does: whatever still carries its id in the environment is then killed, and the directory goes.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from provisioner.planning.scale_down.stop_value import START_SHARE
from provisioner.providers.base import FoundInstance, FoundState, LaunchIntent
from provisioner.types import OfferKey
from windlass.base.clock import Clock
from windlass.base.errors import ProviderError
from windlass.base.files import write_atomic
from windlass.base.processes import (
    ProcessName,
    is_running,
    marked_processes,
    send,
    sweep,
    wait_gone,
)

log = logging.getLogger(__name__)

ID_VARIABLE = "WINDLASS_INSTANCE_ID"
HOST_ARGV = (sys.executable, "-P", "-m", "agent_bootstrap.host")
STOP_GRACE_S = 10.0
"""From SIGTERM to SIGKILL of a host: it ends its agent and all tasks meanwhile."""
SPAWN_GRACE_S = 30.0
"""A directory without a host process for longer than this is an instance that died."""
LOG_TAIL_BYTES = 2_000
STOPPED = "stopped"
STARTED = "started"
"""It was started again: its host boots faster then."""
_ENDING_PREFIX = ".ending-"
UNREADABLE_PREFIX = ".unreadable-"
"""Of directories whose `instance.json` this release cannot read. They are kept until somebody removes them."""
_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"),
        *("VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHASHSEED", "OMP_NUM_THREADS"),
        *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
        *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    }
)
"""The master's other variables may hold its secrets: tasks inherit only these (and LC_*, NVIDIA_*)."""

_M = TypeVar("_M", bound=BaseModel)


class _Instance(BaseModel):
    """`instance.json`."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    """Another number is of a newer release, and not read."""
    instance_id: str
    cluster_id: str
    pool: str
    intent_id: str
    generation: int
    created_at: float
    offer_key: OfferKey
    slots: int | None = None
    usd_per_hour: float | None = None


class _HostState(BaseModel):
    """`host.state`."""

    pid: int
    start_time: int
    boot_id: str


class Instances:
    """Those under one directory. Every method blocks; all may be called from any thread."""

    def __init__(self, root: Path, clock: Clock, host_argv: Sequence[str] = HOST_ARGV) -> None:
        self._root = root
        self._clock = clock
        self._host_argv = tuple(host_argv)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._ending: set[str] = set()
        self.lock = threading.RLock()
        """Held from the directory of a launch to its process: `found` must not take the instance for dead."""

    def make(self, intent: LaunchIntent, ids: Sequence[str], join_token: str) -> None:
        """All or none."""
        with self.lock:
            made: list[str] = []
            try:
                for instance_id in ids:
                    if self._make(instance_id, intent, join_token):
                        made.append(instance_id)
            except BaseException:
                for instance_id in made:
                    self._remove(instance_id)
                raise

    def of_offer(self, key: OfferKey) -> set[str]:
        """The instances of that offer that are not stopped, of whatever cluster."""
        read = (_read(path / "instance.json", _Instance) for path in self._directories())
        of = {x.instance_id for x in read if x is not None and x.offer_key == key}
        return {instance_id for instance_id in of if not self.is_stopped(instance_id)}

    def exists(self, instance_id: str) -> bool:
        return (self._root / instance_id / "instance.json").exists()

    def found(self, cluster_id: str) -> tuple[FoundInstance, ...]:
        found = []
        with self.lock:
            self._reap_forgotten()
            for directory in self._directories():
                if directory.name.startswith(_ENDING_PREFIX):
                    shutil.rmtree(directory, ignore_errors=True)
                    continue
                instance = _read(directory / "instance.json", _Instance)
                if instance is None and (directory / "instance.json").exists():
                    self._set_aside(directory)
                elif instance is None:
                    self._drop_unfinished(directory)
                elif instance.cluster_id == cluster_id:
                    found.append(self._found(instance))
        return tuple(found)

    def terminate(self, instance_id: str) -> None:
        """End it; anything else is left alone."""
        if "/" in instance_id or instance_id.startswith(".") or instance_id in self._ending:
            return
        with self.lock:
            if not (self._root / instance_id).exists():
                return
            self._ending.add(instance_id)
        try:
            self._stop_host(instance_id)
            with self.lock:
                self._remove(instance_id)
        finally:
            self._ending.discard(instance_id)

    def is_stopped(self, instance_id: str) -> bool:
        return (self._root / instance_id / STOPPED).exists()

    def stop(self, instance_id: str) -> None:
        """End its processes and keep its directory. Raises ProviderError for one that is not there."""
        with self.lock:
            self._require(instance_id)
            write_atomic(self._root / instance_id / STOPPED, b"", durable=True)
        self._stop_host(instance_id)
        with self.lock:
            if self.is_stopped(instance_id):
                self._end_processes(instance_id)

    def start(self, instance_id: str) -> None:
        """Run the host of a stopped one again; of others it runs. Raises ProviderError for one that is not there."""
        with self.lock:
            self._require(instance_id)
            if not self.is_stopped(instance_id):
                return
            self._end_processes(instance_id)  # of a stop or a start that was cut short
            directory = self._root / instance_id
            (directory / "host.state").unlink(missing_ok=True)
            (directory / STARTED).touch()
            self._spawn(directory, instance_id)
            (directory / STOPPED).unlink()

    def _require(self, instance_id: str) -> None:
        if not self.exists(instance_id) or instance_id in self._ending:
            raise ProviderError(f"instance {instance_id} does not exist")

    def names(self) -> list[str]:
        """What is there, readable or not."""
        return [x.name for x in self._directories() if not x.name.startswith(_ENDING_PREFIX)]

    def _directories(self) -> list[Path]:
        """Other dot names are no instances."""
        entries = sorted(self._root.iterdir()) if self._root.exists() else []
        return [
            entry
            for entry in entries
            if entry.is_dir()
            and (not entry.name.startswith(".") or entry.name.startswith(_ENDING_PREFIX))
        ]

    def _make(self, instance_id: str, intent: LaunchIntent, join_token: str) -> bool:
        """Directory, then process; each only if a call with this token has not made it before."""
        directory = self._root / instance_id
        tags = directory / "instance.json"
        is_known = tags.exists() and (instance_id in self._ending or self.is_stopped(instance_id))
        if is_known or (tags.exists() and self._host_is_up(instance_id)):
            return False
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.mkdir(exist_ok=True, mode=0o700)
        self._write_host_config(directory, instance_id, intent, join_token)
        instance = _Instance(
            instance_id=instance_id,
            cluster_id=intent.cluster_id,
            pool=intent.pool,
            intent_id=intent.intent_id,
            generation=intent.generation,
            created_at=self._clock.now().timestamp(),
            offer_key=intent.offer.key,
            slots=intent.offer.slots,
            usd_per_hour=intent.offer.usd_per_hour,
        )
        write_atomic(tags, instance.model_dump_json().encode(), mode=0o644, durable=True)
        self._spawn(directory, instance_id)
        return True

    def _write_host_config(
        self, directory: Path, instance_id: str, intent: LaunchIntent, join_token: str
    ) -> None:
        own = {
            "agent_id": instance_id,
            "instance_id": instance_id,
            "join_token": join_token,
            "work_dir": str(directory / "agent"),
        }
        config = {
            **intent.request,
            "start_s": START_SHARE * intent.request["boot_s"],
            "instance_id": instance_id,
            "agent": {**intent.request["agent"], **own},
        }
        write_atomic(directory / "host.json", json.dumps(config).encode(), durable=True)

    def _spawn(self, directory: Path, instance_id: str) -> None:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _PASSED_ON or name.startswith(("LC_", "NVIDIA_"))
        }
        with (directory / "host.log").open("ab") as log:
            self._children[instance_id] = subprocess.Popen(
                [*self._host_argv, "--dir", str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**kept, ID_VARIABLE: instance_id},
                cwd=directory,
                start_new_session=True,
            )

    def _reap_forgotten(self) -> None:
        """Children whose directory is gone were ended by somebody else: collect them once they are dead."""
        for instance_id, child in list(self._children.items()):
            if not (self._root / instance_id).exists() and child.poll() is not None:
                del self._children[instance_id]

    def _found(self, instance: _Instance) -> FoundInstance:
        instance_id = instance.instance_id
        state, detail = FoundState.RUNNING, ""
        leaves_at = self._leaves_at(instance_id)
        if leaves_at is not None and leaves_at <= self._clock.now().timestamp():
            self._end_processes(instance_id)
        if self.is_stopped(instance_id):
            # Until its processes have ended it runs, and can be started only after that.
            state = FoundState.RUNNING if self._host_is_up(instance_id) else FoundState.STOPPED
        elif not self._host_is_up(instance_id) and instance_id not in self._ending:
            if self._may_be_starting(instance_id):
                state = FoundState.PENDING
            else:
                state = FoundState.ENDED
                detail = self._last_words(instance_id)
                self._remove(instance_id)
        return FoundInstance(
            instance_id=instance_id,
            state=state,
            cluster_id=instance.cluster_id,
            pool=instance.pool,
            intent_id=instance.intent_id,
            generation=instance.generation,
            created_at=instance.created_at,
            started_at=instance.created_at,
            offer_key=instance.offer_key,
            slots=instance.slots,
            usd_per_hour=instance.usd_per_hour,
            leaves_at=leaves_at,
            leaves_because="taken back by the site" if leaves_at is not None else "",
            detail=detail,
        )

    def _leaves_at(self, instance_id: str) -> float | None:
        """As its notice says; one that cannot be read is none."""
        notice = self._root / instance_id / "notice"
        try:
            return notice.stat().st_mtime + float(notice.read_text())
        except (OSError, ValueError):
            return None

    def _host_is_up(self, instance_id: str) -> bool:
        """The host process lives: the child we started, or the process that `host.state` names."""
        child = self._children.get(instance_id)
        if child is not None:
            return child.poll() is None
        host = self._host(instance_id)
        return host is not None and is_running(host)

    def _may_be_starting(self, instance_id: str) -> bool:
        """A master died right after it started the host, which has not written its state yet."""
        if instance_id in self._children or self._host(instance_id) is not None:
            return False
        written = (self._root / instance_id / "instance.json").stat().st_mtime
        return time.time() - written < SPAWN_GRACE_S and bool(
            marked_processes(ID_VARIABLE, instance_id)
        )

    def _host(self, instance_id: str) -> ProcessName | None:
        state = _read(self._root / instance_id / "host.state", _HostState)
        if state is None:
            return None
        return ProcessName(state.pid, state.start_time, state.boot_id)

    def _last_words(self, instance_id: str) -> str:
        try:
            with (self._root / instance_id / "host.log").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").split("\n")
        except OSError:
            lines = []
        words = [line.strip() for line in lines if line.strip()]
        return f"its host process ended: {words[-1]}" if words else "its host process ended"

    def _set_aside(self, directory: Path) -> None:
        """What cannot be read is no instance of ours any more: end what runs there, and keep the rest for people."""
        aside = directory.with_name(f"{UNREADABLE_PREFIX}{directory.name}")
        log.error(
            "%s cannot be read (was it written by a newer Windlass?): the instance is ended, its directory kept as %s",
            directory / "instance.json",
            aside,
        )
        self._end_processes(directory.name)
        shutil.rmtree(aside, ignore_errors=True)
        directory.rename(aside)

    def _drop_unfinished(self, directory: Path) -> None:
        """A launch died before the tags were written: no process was started, nobody knows of it."""
        with suppress(OSError):
            if time.time() - directory.stat().st_mtime > SPAWN_GRACE_S:
                shutil.rmtree(directory)

    def _stop_host(self, instance_id: str) -> None:
        child = self._children.get(instance_id)
        if child is not None:
            child.terminate()
            try:
                child.wait(STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                child.kill()
            return
        host = self._host(instance_id)
        if host is not None:
            send(host, signal.SIGTERM)
            if not wait_gone(host, STOP_GRACE_S):
                send(host, signal.SIGKILL)

    def _remove(self, instance_id: str) -> None:
        """Kill what carries its id, then let the directory vanish in one step: no list sees half of it."""
        self._end_processes(instance_id)
        grave = self._root / f"{_ENDING_PREFIX}{instance_id}"
        shutil.rmtree(grave, ignore_errors=True)
        with suppress(FileNotFoundError):
            (self._root / instance_id).rename(grave)
        shutil.rmtree(grave, ignore_errors=True)

    def _end_processes(self, instance_id: str) -> None:
        """Our own child first: directly after its start the environment that the sweep looks for is not readable."""
        child = self._children.pop(instance_id, None)
        if child is not None:
            child.kill()
            child.wait()
        sweep(ID_VARIABLE, instance_id)


def _read(path: Path, model: type[_M]) -> _M | None:
    """None if the file is not there or not whole."""
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
