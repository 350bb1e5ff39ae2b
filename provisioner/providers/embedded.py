"""Instances that are directories with a process on this machine: an elastic pool without a cloud.

    <root>/<instance_id>/instance.json   what it is (the tags), written before the process starts
                        /host.json       what the host process is told; holds the join token, so only the owner reads it
                        /host.state      which process it is, written by the host as its first act
                        /host.log        what the host printed
                        /agent/          the agent's own directory
                        /notice          put there by people and tests: so many seconds after this file was written
                                         the site takes the instance back, as a cloud does with spot machines

The directories are the truth that `list` reads, so everything survives a restart of the master. An instance ends when
its host process does: whatever still carries its id in the environment is then killed, and the directory goes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from provisioner.providers.base import (
    AnswersAtOnce,
    FoundInstance,
    FoundState,
    Inventory,
    LaunchAnswer,
    LaunchIntent,
    LaunchResult,
)
from provisioner.types import Market, Offer, OfferKey
from windlass.base.clock import Clock
from windlass.base.errors import CapacityError, ProviderError
from windlass.base.files import write_atomic
from windlass.base.json_types import JsonMapping
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
SPAWN_GRACE_S = 5.0
"""A directory without a host process for longer than this is an instance that died."""
BOOT_ALLOWANCE_S = 3.0
"""What starting two Python processes and connecting takes on top of the configured boot time."""
LOG_TAIL_BYTES = 2_000
THREADS = 8
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


REGION = "local"
"""Of every embedded offer. What costs money has another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A kind of instance that a pool can launch. Its price is invented."""

    name: str
    slots: int
    usd_per_hour: float
    boot_s: float
    available: int | None = None
    """More than so many at once are refused as a stock-out; None: no limit."""


_M = TypeVar("_M", bound=BaseModel)
_T = TypeVar("_T")


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


class EmbeddedProvider(AnswersAtOnce):
    """One site: the instances under one directory. Process and file work happens in threads."""

    list_every_s = 1.0
    list_grace_s = 0.0

    def __init__(
        self,
        *,
        root: Path,
        name: str,
        cluster_id: str,
        clock: Clock,
        types: Mapping[str, Sequence[InstanceType]],
        master_url: str,
        join_token: Callable[[LaunchIntent, Sequence[str]], str],
        host_argv: Sequence[str] = HOST_ARGV,
        master_cert: Path | None = None,
    ) -> None:
        """`types`: what each pool may buy. `master_cert`: a file with the certificate that the master shows, for an
        https `master_url`.
        """
        self._root = root
        self._name = name
        self._cluster_id = cluster_id
        self._clock = clock
        self._master_url = master_url
        self._join_token = join_token
        self._host_argv = tuple(host_argv)
        self._master_cert = master_cert
        self.sell(types)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._ending: set[str] = set()
        # Threads of its own: ending hosts may take seconds each and must not starve anybody else.
        self._threads: ThreadPoolExecutor | None = None
        # Between the directory and the process of a launch, `list` must not take the instance for dead.
        self._lock = threading.Lock()

    def sell(self, types: Mapping[str, Sequence[InstanceType]]) -> None:
        """What each pool may buy from now on."""
        self._types = {type_.name: type_ for kinds in types.values() for type_ in kinds}
        self._offers = {
            pool: tuple(offer_of(self._name, type_) for type_ in kinds)
            for pool, kinds in types.items()
        }

    @property
    def name(self) -> str:
        return self._name

    def offers(self, pool: str) -> Sequence[Offer] | None:
        return self._offers.get(pool, ())

    async def open(self) -> None:
        self._threads = self._threads or ThreadPoolExecutor(
            THREADS, thread_name_prefix=f"embedded-{self._name}"
        )

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        cert = {} if self._master_cert is None else {"master_cert": str(self._master_cert)}
        return {
            "boot_s": max(0.0, intent.offer.boot_s - BOOT_ALLOWANCE_S),
            "agent": {
                "master_url": self._master_url,
                "resource_pool": intent.pool,
                "artificial_slots": intent.offer.slots,
                "security": {"tls": cert},
            },
        }

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        return await self._in_thread(lambda: self._launch(intent))

    async def list(self) -> Inventory:
        return Inventory(instances=await self._in_thread(self._list))

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        await asyncio.gather(
            *(self._in_thread(partial(self._terminate, id_)) for id_ in instance_ids)
        )

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        if self._threads is None:
            raise ProviderError(f"provider {self._name} is not open")
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _launch(self, intent: LaunchIntent) -> LaunchResult:
        ids = tuple(f"{intent.pool}-{intent.token[:8]}-{i}" for i in range(intent.count))
        with self._lock:
            self._require_capacity(intent.offer.key.instance_type, ids)
            made: list[str] = []
            try:
                token = self._join_token(intent, ids)
                for instance_id in ids:
                    if self._make(instance_id, intent, token):
                        made.append(instance_id)
            except BaseException:
                for instance_id in made:  # all or none
                    self._remove(instance_id)
                raise
        return LaunchResult(instance_ids=ids)

    def _require_capacity(self, name: str, ids: Sequence[str]) -> None:
        type_ = self._types.get(name)  # None: it was removed from the configuration since
        if type_ is None or type_.available is None:
            return
        running = {
            instance.instance_id
            for directory in (self._root.iterdir() if self._root.exists() else ())
            if (instance := _read(directory / "instance.json", _Instance)) is not None
            and instance.offer_key.instance_type == name
        }
        if len(running | set(ids)) > type_.available:
            left = max(0, type_.available - len(running - set(ids)))
            raise CapacityError(f"{name} is out of stock: requested {len(ids)}, available {left}")

    def _make(self, instance_id: str, intent: LaunchIntent, join_token: str) -> bool:
        """Directory, then process; each only if a call with this token has not made it before."""
        directory = self._root / instance_id
        tags = directory / "instance.json"
        if tags.exists() and (self._host_is_up(instance_id) or instance_id in self._ending):
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

    def _list(self) -> tuple[FoundInstance, ...]:
        found = []
        with self._lock:
            self._reap_forgotten()
            directories = sorted(self._root.iterdir()) if self._root.exists() else []
            for directory in directories:
                if directory.name.startswith(UNREADABLE_PREFIX):
                    continue
                if directory.name.startswith(_ENDING_PREFIX):
                    shutil.rmtree(directory, ignore_errors=True)
                    continue
                instance = _read(directory / "instance.json", _Instance)
                if instance is None and (directory / "instance.json").exists():
                    self._set_aside(directory)
                elif instance is None:
                    self._drop_unfinished(directory)
                elif instance.cluster_id == self._cluster_id:
                    found.append(self._found(instance))
        return tuple(found)

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
        if not self._host_is_up(instance_id) and instance_id not in self._ending:
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

    def _terminate(self, instance_id: str) -> None:
        if "/" in instance_id or instance_id.startswith(".") or instance_id in self._ending:
            return
        with self._lock:
            if not (self._root / instance_id).exists():
                return
            self._ending.add(instance_id)
        try:
            self._stop_host(instance_id)
            with self._lock:
                self._remove(instance_id)
        finally:
            self._ending.discard(instance_id)

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


def offer_of(provider: str, type_: InstanceType) -> Offer:
    """What a pool may buy at a site that has that kind of instance."""
    key = OfferKey(
        provider=provider, region=REGION, instance_type=type_.name, market=Market.ON_DEMAND
    )
    return Offer(
        key=key,
        slots=type_.slots,
        usd_per_hour=type_.usd_per_hour,
        boot_s=type_.boot_s + BOOT_ALLOWANCE_S,
    )
