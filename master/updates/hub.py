"""Tells clients of committed changes, each of what it subscribed to and may see.

One loop does everything in turn: it asks again who may see what, synchronises clients that have subscribed, and tells
of changes. What it tells is what the store holds at that moment; the numbers of changes keep it from telling twice.
Each client's rights are compared once more right before anything is told or sent.

A client that reconnects sends the highest number it has received, and gets only higher ones. So numbers are
told in ascending order, and what has changed since the loop looked is told with the number up to which it has looked:
its own one follows, once all before it have been told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import orjson
import structlog

from master.auth.rights import Rights
from master.core.updates.ranges import IdRanges
from master.core.updates.subscription import (
    Difference,
    Feature,
    Filter,
    Present,
    ShownRow,
    at_sync,
    hidden,
    news,
)
from master.core.visibility import Visibility
from master.store.change_feed import Change
from master.store.store import Store
from master.updates.entities import KIND_OF, KINDS, Entities, Entity, Kind
from master.updates.outbox import Key, Outbox
from windlass.base.errors import StoreUnavailable, WindlassError
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

GATHER_S = 0.1
"""Changes within this time are told together: several of one row are one."""
ASK_AGAIN_EVERY_S = 15.0
"""Logins expire, and tasks end, without a word."""
SYNCS_AT_ONCE = 20
"""Then changes are told, for those who are here already."""
LOOKS_AT_ONCE = 100
"""Clients whose rights are asked before others than the hub have their turn: some milliseconds."""
MAX_CLIENTS = 10_000
TOO_SLOW = "the client reads too slowly: connect again"
UNREADABLE = "the master could not read what has changed: connect again"

K = TypeVar("K", bound=Hashable)
Sight = Mapping[str, Visibility]
"""By kind of entity."""
Look = Callable[[], Sight]
"""What a client may see now. Raises WindlassError for one that may not be here any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """By kind; a kind that is left out is not wanted."""

    sync_id: str = ""
    filters: Mapping[str, Filter] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    known: Mapping[str, IdRanges] = field(default_factory=dict)
    """What the client has, of kinds that it does not want any more, too."""


class Client:
    """One connection. Whoever holds it sends what `UpdateHub.next` returns."""

    def __init__(self, name: str, look: Look) -> None:
        self.name = name
        """For the log."""
        self.outbox = Outbox()
        self.look = look
        self.sight: Sight = {}
        self.rights_version = -1
        """When `sight` was true."""
        self.filters: Mapping[str, Filter] = {}
        self.told: dict[str, dict[int, ShownRow]] = {kind.name: {} for kind in KINDS}
        """Its picture."""

    def sees(self, kind: str, entity: Entity) -> bool:
        wanted = self.filters.get(kind)
        return (
            wanted is not None
            and entity.features.workspace_id in self.sight[kind]
            and wanted.matches(entity.features)
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    client: Client
    subscription: Subscription
    answered: asyncio.Future[None]


class UpdateHub:
    def __init__(self, store: Store, rights: Rights, *, gather_s: float = GATHER_S) -> None:
        self._entities = Entities(store)
        self._rights = rights
        self._looked_at = -1
        """The version of rights that all clients were looked at with."""
        self._look_again_at = 0.0
        self._gather_s = gather_s
        self._clients: set[Client] = set()
        self._regained: set[Client] = set()
        """They may see more, or other things, than they have been told of."""
        self._dirty: set[Key] = set()
        self._noted = -1
        """The number of the newest change that is in `_dirty` or was; -1: not read yet."""
        self._asked: list[_Asked] = []
        self._by_feature: dict[tuple[str, Feature], set[Client]] = {}
        self._by_told: dict[Key, set[Client]] = {}
        self._loop = Loop("live updates", self.step, interval_s=ASK_AGAIN_EVERY_S)
        store.changes.listen(self._note)
        rights.listeners.add(self._wake_for_rights)

    async def run(self) -> None:
        await self._loop.run()

    def add(self, client: Client) -> None:
        """Raises what its look raises, and StoreUnavailable for one too many."""
        if len(self._clients) >= MAX_CLIENTS:
            raise StoreUnavailable(f"{MAX_CLIENTS} clients follow live updates already")
        client.sight, client.rights_version = client.look(), self._rights.version
        self._clients.add(client)

    def remove(self, client: Client) -> None:
        self._subscribe(client, {})
        self._forget(client)
        self._regained.discard(client)
        self._clients.discard(client)

    async def sync(self, client: Client, subscription: Subscription) -> None:
        """Returns once all of it waits to be sent; changes follow."""
        answered = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(client, subscription, answered))
        self._loop.wake()
        await answered

    async def next(self, client: Client) -> str | None:
        """The next message for it; None: it is to be sent away, for the reason in its outbox."""
        while client.outbox.closed is None:
            await client.outbox.ready()
            self._look(client)
            message = client.outbox.take()
            if message is not None:
                return message
        return None

    async def step(self) -> None:
        """Everything that is to be done now."""
        try:
            if self._noted < 0:
                last = await self._entities.last_change()
                self._noted = max(self._noted, last)
            await self._look_at_all()
            asked, self._asked = self._asked[:SYNCS_AT_ONCE], self._asked[SYNCS_AT_ONCE:]
            for one in asked:
                await self._sync(one)
            dirty, self._dirty, upto = self._dirty, set(), self._noted
            await self._tell(dirty, upto)
            await self._tell_regained(upto)
            if dirty:
                await asyncio.sleep(self._gather_s)
        except Exception:
            for client in tuple(self._clients):
                self._send_away(client, UNREADABLE)
            raise
        if self._asked or self._dirty:
            self._loop.wake()

    # What is committed

    def _note(self, changes: Sequence[Change]) -> None:
        self._noted = max(self._noted, changes[-1].seq)
        if self._clients:
            self._dirty.update((one.kind, one.id) for one in changes)
            self._loop.wake()

    async def _tell(self, dirty: Iterable[Key], upto: int) -> None:
        ids: dict[str, list[int]] = {}
        for name, id_ in dirty:
            ids.setdefault(name, []).append(id_)
        for name, changed in ids.items():
            present = await self._entities.read(KIND_OF[name], changed, upto)
            for id_ in _by_change(changed, present):
                self._tell_of((name, id_), present.get(id_))

    def _tell_of(self, key: Key, entity: Entity | None) -> None:
        name, id_ = key
        concerned = set(self._by_told.get(key, ()))
        if entity is not None:
            for feature in entity.features:
                concerned |= self._by_feature.get((name, feature), set())
        for client in concerned:
            self._look(client)
            told = client.told[name].get(id_)
            if entity is not None and client.sees(name, entity):
                if told is None or told.seq < entity.seq:
                    self._row(client, key, entity)
            elif told is not None:
                self._gone(client, key)
            if client.outbox.is_full:
                self._send_away(client, TOO_SLOW)

    # Who subscribes

    async def _sync(self, asked: _Asked) -> None:
        client = asked.client
        if client in self._clients and not asked.answered.done():
            self._subscribe(client, asked.subscription.filters)
            upto, differences = await self._differences(client, asked.subscription)
            sync_id = asked.subscription.sync_id
            client.outbox.put(_mark(sync_id, complete=False))
            for name, difference in differences.items():
                client.outbox.put(KIND_OF[name].deleted(difference.deleted))
            for name, difference in differences.items():
                await self._rows(client, KIND_OF[name], difference.changed, upto)
            client.outbox.put(_mark(sync_id, complete=True))
            client.outbox.allow()
        if not asked.answered.done():
            asked.answered.set_result(None)

    async def _differences(
        self, client: Client, wanted: Subscription
    ) -> tuple[int, Mapping[str, Difference]]:
        """Of what it wants or has, all by the same rights. From here on it has what is there now.

        With the number up to which all changes are in it.
        """
        upto, found = self._noted, dict[str, Present]()
        while client.outbox.closed is None:
            self._look(client)
            version = client.rights_version
            client.outbox.clear()
            self._forget(client)
            upto, found = self._noted, {}
            for kind in KINDS:
                if kind.name in wanted.filters or kind.name in wanted.known:
                    where = wanted.filters.get(kind.name, Filter())
                    found[kind.name] = await self._entities.present(
                        kind, where, client.sight[kind.name]
                    )
            if version == self._rights.version:
                break
        self._regained.discard(client)
        for name, present in found.items():
            for id_, latest in present.items():
                self._hold(client, (name, id_), latest)
        return upto, {
            name: at_sync(wanted.known.get(name, IdRanges()), wanted.since.get(name, 0), present)
            for name, present in found.items()
        }

    async def _rows(self, client: Client, kind: Kind, ids: Collection[int], upto: int) -> None:
        """What has gone meanwhile is told as a change."""
        present = await self._entities.read(kind, ids, upto)
        self._look(client)
        for id_ in _by_change(ids, present):
            entity = present.get(id_)
            if entity is not None and client.sees(kind.name, entity):
                self._row(client, (kind.name, id_), entity)
            else:
                self._dirty.add((kind.name, id_))

    def _subscribe(self, client: Client, filters: Mapping[str, Filter]) -> None:
        for name, old in client.filters.items():
            for feature in old.features:
                _leave(self._by_feature, (name, feature), client)
        client.filters = filters
        for name, new in filters.items():
            for feature in new.features:
                self._by_feature.setdefault((name, feature), set()).add(client)

    # Who may see what

    def _wake_for_rights(self) -> None:
        if self._clients:
            self._loop.wake()

    async def _look_at_all(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._look_again_at:
            self._look_again_at = now + ASK_AGAIN_EVERY_S
            for client in self._clients:
                client.rights_version = -1
            self._looked_at = -1
        if self._looked_at != self._rights.version:
            self._looked_at = self._rights.version
            for number, client in enumerate(tuple(self._clients), 1):
                self._look(client)
                if number % LOOKS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def _tell_regained(self, upto: int) -> None:
        """Who may see more: all changes up to that number have been told."""
        regained, self._regained = self._regained, set()
        for client in regained:
            for name, where in client.filters.items():
                kind = KIND_OF[name]
                present = await self._entities.present(kind, where, client.sight[name])
                await self._rows(client, kind, news(client.told[name], present), upto)
            client.outbox.allow()

    def _look(self, client: Client) -> None:
        """What it may not see any more is gone for it."""
        version = self._rights.version
        if client.rights_version == version or client.outbox.closed is not None:
            return
        try:
            sight = client.look()
        except WindlassError as error:
            self._send_away(client, error.message)
            return
        client.rights_version = version
        if sight == client.sight:
            return
        client.sight = sight
        for name, told in client.told.items():
            for id_ in hidden(told, sight[name]):
                self._gone(client, (name, id_))
        if client in self._clients:
            self._regained.add(client)
            self._loop.wake()

    def _send_away(self, client: Client, why: str) -> None:
        if client.outbox.closed is None:
            log.warning("live updates ended", client=client.name, why=why)
        client.outbox.close(why)
        self.remove(client)

    # The pictures of clients

    def _row(self, client: Client, key: Key, entity: Entity) -> None:
        self._hold(client, key, ShownRow(entity.seq, entity.features.workspace_id))
        client.outbox.put_row(key, entity.text)

    def _gone(self, client: Client, key: Key) -> None:
        del client.told[key[0]][key[1]]
        _leave(self._by_told, key, client)
        client.outbox.put_row(key, None)

    def _hold(self, client: Client, key: Key, latest: ShownRow) -> None:
        if client in self._clients:  # it may have left while the store was read
            client.told[key[0]][key[1]] = latest
            self._by_told.setdefault(key, set()).add(client)

    def _forget(self, client: Client) -> None:
        for name, told in client.told.items():
            for id_ in told:
                _leave(self._by_told, (name, id_), client)
            told.clear()


def _leave(index: dict[K, set[Client]], key: K, client: Client) -> None:
    clients = index.get(key)
    if clients is not None:
        clients.discard(client)
        if not clients:
            del index[key]


def _by_change(ids: Iterable[int], present: Mapping[int, Entity]) -> list[int]:
    """In the order of their newest changes."""
    return sorted(ids, key=lambda id_: present[id_].seq if id_ in present else 0)


def _mark(sync_id: str, *, complete: bool) -> str:
    return orjson.dumps({"sync_id": sync_id, "complete": complete}).decode()
