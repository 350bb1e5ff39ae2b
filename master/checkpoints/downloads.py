"""Checkpoints through the master, as one archive each, in constant memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from sqlalchemy import select

from master.allocations.identities import TaskOwner
from master.checkpoints.places import CheckpointPlaces, sees_any
from master.checkpoints.planning import STORED
from master.checkpoints.workers import Archive, WorkerProcesses
from master.store import tables
from master.store.store import Store
from windlass.base.checkpoint_states import not_downloadable
from windlass.base.errors import Conflict, NotFound, WindlassError
from windlass.base.formats.json_types import JsonObject
from windlass.storage.archives import Format
from windlass.storage.worker import Order

AT_ONCE = 8
"""Each is a process that reads as fast as its client takes."""
OF_ONE_USER = 4
"""Of these: whoever takes slowly keeps nobody else from taking."""
_C, _E, _B, _P = (
    tables.Checkpoint,
    tables.Experiment,
    tables.StorageBackend,
    tables.Project,
)


class TooManyDownloads(WindlassError):
    """Try again in a while."""

    code = "throttled"


class _Found(NamedTuple):
    state: str
    own: JsonObject
    config: JsonObject | None
    owner: TaskOwner
    experiment_id: int


class Downloads:
    def __init__(self, store: Store, places: CheckpointPlaces) -> None:
        self._store = store
        self._places = places
        self._workers = WorkerProcesses()
        self._running: Counter[int | None] = Counter()
        """By user."""

    @asynccontextmanager
    async def archive(
        self, uuid: str, format_: Format, *, owns: bool, by: int | None
    ) -> AsyncIterator[Archive]:
        """`by`: the reader.

        `owns`: whether the reader may do with the experiment what its owner may; others get what anybody may read.

        Raises NotFound, Conflict for one that is not in storage or that the master cannot reach, TooManyDownloads.
        """
        found = await self._require(uuid)
        storage = found.config or found.own
        here = self._places.folder(storage)
        run_as = None
        if here is not None:
            if not await asyncio.to_thread(sees_any, here, (uuid,)):
                raise Conflict(
                    f"the files of checkpoint {uuid} are not at {'/'.join((here.root, *here.below))} on the master: "
                    "download it where that storage is mounted, with --mode direct"
                )
            run_as = self._places.run_as(found.owner) if owns else self._places.other_user()
        elif not self._places.bucket(storage):
            raise Conflict(
                f"checkpoint {uuid} is in storage of its owner's own ({_described(storage)}), which the master does "
                "not read: download it where that storage can be reached, with --mode direct"
            )
        if self._running[by] >= OF_ONE_USER or self._running.total() >= AT_ONCE:
            yours = f", {self._running[by]} of them yours"
            raise TooManyDownloads(
                f"{self._running.total()} downloads are running through the master{yours}: try again in a while, "
                "or use --mode direct"
            )
        order = Order(
            do="archive",
            storage=self._places.resolved(storage),
            folders=(uuid,),
            format=format_,
            run_as=run_as,
        )
        self._running[by] += 1
        try:
            async with self._workers.archive(order, here) as archive:
                yield archive
        finally:
            self._running[by] -= 1
            self._running += Counter()  # without those that have none

    async def _require(self, uuid: str) -> _Found:
        found = await self._store.read_one(
            select(_C.state, _E.config, _B.config, _E.id, _E.owner_id, _P.workspace_id)
            .join(_E, _E.id == _C.experiment_id)
            .join(_P, _P.id == _E.project_id)
            .outerjoin(_B, _B.id == _C.storage_id)
            .where(_C.uuid == uuid),
            lambda state, config, stored, id_, *owner: _Found(
                state, config["checkpoint_storage"], stored, TaskOwner(*owner), id_
            ),
        )
        if found is None:
            raise NotFound("checkpoint", uuid)
        if found.state not in STORED:
            raise Conflict(not_downloadable(uuid, found.state, found.experiment_id))
        return found


def _described(storage: Mapping[str, object]) -> str:
    place = storage.get("host_path") or storage.get("container_path") or storage.get("bucket")
    return f"{storage.get('type')} {place or storage.get('container') or ''}".strip()
