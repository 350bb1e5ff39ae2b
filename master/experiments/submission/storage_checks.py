"""Whether checkpoints of a submission can be stored: tried with a small file, where the master can and may try.

The master is no deputy of users: it sends its own credentials only to the cluster's storage, and nothing to addresses
that a user names, which may be of services that only the master reaches. So it tries a bucket

- that master.yaml names, with what is configured there or the rights of its machine, and
- any other with the keys of the submission, at its provider's own address or at the one in master.yaml.

Directories are those of the nodes: the agent looks at them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import (
    InvalidConfig,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageUnreachable,
    WindlassError,
)
from windlass.storage import CHECKS, open_storage, require_usable
from windlass.storage.buckets.trust import is_azure

log = structlog.get_logger(__name__)

DEADLINE_S = 10.0
"""For all requests of a check together: somebody waits for the answer to a submission."""
GOOD_FOR_S = 300.0
BAD_FOR_S = 20.0
"""Whoever mends it wants to submit again."""
REMEMBERED = 1_000
_THREADS = ThreadPoolExecutor(4, "storage-checks")

_PLACES: Mapping[str, tuple[str, ...]] = {
    "s3": ("bucket", "prefix", "endpoint_url"),
    "gcs": ("bucket", "prefix"),
    "azure": ("container", "account_url", "connection_string"),
}
"""By type of storage: where it is."""
_KEYS: Mapping[str, tuple[str, ...]] = {
    "s3": ("access_key",),
    "gcs": (),
    "azure": ("connection_string", "credential"),
}
"""What to log in with."""

Storage = Mapping[str, Any]
Try = Callable[[Storage], None]
"""Raises StorageError."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    problem: StorageError | None
    until: float


class StorageChecks:
    def __init__(self, clock: Clock, cluster: Storage, attempt: Try | None = None) -> None:
        """`cluster`: the section of master.yaml, with its secrets."""
        self._clock = clock
        self._cluster = cluster
        self._attempt = attempt or _attempt
        self._known: dict[str, _Outcome] = {}
        self._running: dict[str, asyncio.Task[StorageError | None]] = {}

    def at_cluster_address(self, storage: Storage) -> bool:
        """Whether a bucket is at the server that master.yaml names."""
        return same_address(storage, self._cluster)

    async def require(self, storage: Storage) -> None:
        """A complete section with its secrets. Raises InvalidConfig if checkpoints cannot be stored there."""
        problem = await self.problem(storage)
        if problem is not None:
            field = _field(storage, problem)
            raise InvalidConfig(
                [f"<config>.checkpoint_storage.{field}: {problem.message}"],
                what="experiment configuration",
            )

    async def warn_of_cluster_storage(self) -> None:
        """At the start: nobody has submitted anything yet, and an operator is looking."""
        problem = await self.problem(self._cluster)
        if problem is not None:
            log.warning(
                "checkpoint_storage of master.yaml cannot be used: experiments that do not name another one are "
                "refused",
                problem=problem.message,
            )

    async def problem(self, storage: Storage) -> StorageError | None:
        if not may_try(storage, self._cluster):
            return None
        digest = hashlib.sha256(json.dumps(storage, sort_keys=True).encode()).hexdigest()
        known = self._known.get(digest)
        if known is not None and self._clock.monotonic() < known.until:
            return known.problem
        task = self._running.get(digest)
        if task is None:
            task = asyncio.create_task(self._look(digest, storage))
            self._running[digest] = task
            task.add_done_callback(lambda _: self._running.pop(digest, None))
        return await asyncio.shield(task)

    async def _look(self, digest: str, storage: Storage) -> StorageError | None:
        problem = await self._tried(storage)
        if problem is not None and not has_keys(storage) and not _is_certain(problem):
            # The nodes may have rights that the master has not.
            log.info("checkpoint storage cannot be checked from here", problem=problem.message)
            problem = None
        while len(self._known) >= REMEMBERED:
            self._known.pop(next(iter(self._known)))
        until = self._clock.monotonic() + (GOOD_FOR_S if problem is None else BAD_FOR_S)
        self._known[digest] = _Outcome(problem, until)
        return problem

    async def _tried(self, storage: Storage) -> StorageError | None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.get_running_loop().run_in_executor(_THREADS, self._attempt, storage)
        except TimeoutError:
            return StorageUnreachable(
                f"{_name(storage)}: no answer within {DEADLINE_S:.0f} s: is its address right, and can the "
                "master reach it?"
            )
        except StorageError as problem:
            return problem
        except WindlassError as problem:
            return StorageError(problem.message)
        return None


def may_try(storage: Storage, cluster: Storage) -> bool:
    """Whether the master asks this storage. Both are complete sections."""
    kind = str(storage.get("type"))
    if kind not in _PLACES:
        return False
    if _place(storage) == _place(cluster):
        return True
    return has_keys(storage) and (_is_public(storage) or same_address(storage, cluster))


def same_address(storage: Storage, cluster: Storage) -> bool:
    """Whether a bucket is at the server that master.yaml names. Both are complete sections."""
    kind = storage.get("type")
    return (
        kind in _PLACES and kind == cluster.get("type") and _address(storage) == _address(cluster)
    )


def has_keys(storage: Storage) -> bool:
    return any(storage.get(key) for key in _KEYS[str(storage["type"])])


def _place(storage: Storage) -> tuple[Any, ...]:
    kind = str(storage.get("type"))
    return (kind, *(storage.get(key) for key in _PLACES.get(kind, ())))


def _address(storage: Storage) -> str:
    """Of the server."""
    if storage.get("type") != "azure":
        return str(storage.get("endpoint_url") or "").rstrip("/")
    if storage.get("account_url"):
        return str(storage["account_url"]).rstrip("/")
    from windlass.storage.buckets.azure_account import parse_connection_string

    try:
        return parse_connection_string(str(storage.get("connection_string"))).url
    except InvalidConfig:
        return ""


def _is_public(storage: Storage) -> bool:
    """At the provider's own address."""
    address = _address(storage)
    if storage.get("type") != "azure":
        return not address
    return is_azure(address)


def _attempt(storage: Storage) -> None:
    if find_spec("obstore") is not None:  # else the tasks' environments may still have it
        require_usable(open_storage(storage, patience=CHECKS))


def _is_certain(problem: StorageError) -> bool:
    """Without keys of its own the master knows only what does not depend on rights."""
    return isinstance(problem, StorageMissing)


def _field(storage: Storage, problem: StorageError) -> str:
    """The key that most likely has to change."""
    kind = str(storage["type"])
    keys = [key for key in _KEYS[kind] if storage.get(key)]
    if isinstance(problem, StorageDenied) and keys:
        return keys[0]
    if isinstance(problem, StorageUnreachable):
        for key in ("endpoint_url", "account_url", "connection_string"):
            if storage.get(key):
                return key
    return _PLACES[kind][0]


def _name(storage: Storage) -> str:
    kind = str(storage["type"])
    address = _address(storage)
    return f"{kind} {storage.get(_PLACES[kind][0])}" + (f" at {address}" if address else "")
