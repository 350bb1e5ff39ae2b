"""Tells open pages that something which they show was changed, each of what it follows and its reader may see.

Told is that there is news, never what it is: pages ask the REST API, whose rules alone decide what they get. Nor may
somebody learn that a thing is there, or changes, which they may not see: the right to it is asked for when it is
followed, and again, of where it is now and where it was, each time before something is told. A client whose rights have
changed is told to ask again for all that it follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

import structlog

from master.auth.actions import Target
from master.auth.permissions import allowed, denial
from master.auth.principal import Principal
from master.auth.rights import Rights
from master.live.client import POLICY_VIOLATION, SESSION_OVER, LiveClient
from master.live.news import News, NewsReader, each_place_once
from master.live.places import Places
from master.live.topics import Topic, action_for
from master.store.store import Store
from master.store.touches import Subject, Touch
from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
    Unauthenticated,
    WindlassError,
)
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

GATHER_S = 0.15
"""Changes within this time are told together."""
LOOK_AGAIN_EVERY_S = 15.0
"""Logins expire, and tasks end, without a word."""
LOOKS_AT_ONCE = 50
"""Clients whose rights are asked before others on the event loop have their turn: some milliseconds."""
TELLS_AT_ONCE = 200
"""Things that were changed, the same: thousands of trials are paused in one moment."""
MAX_CLIENTS = 10_000
MAX_OF_ONE_USER = 200
"""Each open page is one."""
MAX_TOPICS = 200
"""Of one client."""


class LiveHub:
    def __init__(self, store: Store, rights: Rights, *, gather_s: float = GATHER_S) -> None:
        self._rights = rights
        self._gather_s = gather_s
        self._places = Places(store)
        self._reader = NewsReader(self._places)
        self._clients: set[LiveClient] = set()
        self._followers: dict[Topic, dict[LiveClient, int]] = {}
        self._targets: dict[Topic, Target] = {}
        """Of topics that are about one thing: where it was when it was looked at last."""
        self._touched: set[Touch] = set()
        self._look_again_at = 0.0
        self._looked_at = -1
        """The version of rights that all clients were looked at with."""
        self._loop = Loop("live pages", self.step, interval_s=LOOK_AGAIN_EVERY_S)
        store.touched.append(self.note)
        rights.listeners.add(self._wake)

    async def run(self) -> None:
        await self._loop.run()

    def note(self, touches: Collection[Touch]) -> None:
        """These were changed, and that is committed."""
        if self._clients:
            self._touched.update(touches)
            self._loop.wake()

    def note_decision(self) -> None:
        """A pool has decided anew: agents, slots or reasons may be others. That is nowhere written."""
        self.note((Touch(Subject.QUEUE),))

    def add(self, client: LiveClient) -> None:
        """Raises StoreUnavailable for one too many."""
        user = client.principal.user_id
        if len(self._clients) >= MAX_CLIENTS:
            raise StoreUnavailable(f"{MAX_CLIENTS} pages are told of changes already")
        if sum(one.principal.user_id == user for one in self._clients) >= MAX_OF_ONE_USER:
            raise StoreUnavailable(
                f"{MAX_OF_ONE_USER} pages of this user are told of changes already"
            )
        client.rights_version = self._rights.version
        self._clients.add(client)

    def remove(self, client: LiveClient) -> None:
        for number in tuple(client.topics):
            self.unfollow(client, number)
        self._clients.discard(client)

    async def follow(self, client: LiveClient, number: int, topic: Topic) -> None:
        """From when this returns it is told. Raises what `REST` would answer to somebody who may not see it."""
        if number in client.topics or client in self._followers.get(topic, {}):
            raise Conflict(f"id {number} or topic '{topic}' is followed already")
        if len(client.topics) >= MAX_TOPICS:
            raise InvalidArgument(f"a page may follow {MAX_TOPICS} topics at most")
        # First the entry, then the look: what is changed between them is told.
        client.follow(number, topic)
        self._followers.setdefault(topic, {})[client] = number
        try:
            target = topic.target or await self._find(topic)
            self._look(client, self._rights.version)
            action = action_for(topic, target)
            if not allowed(client.principal, action, target):
                raise denial(client.principal, action, target)
        except WindlassError:
            self.unfollow(client, number)
            raise
        if topic.target is None and topic in self._followers:
            self._targets.setdefault(topic, target)
        client.accept(number)

    def unfollow(self, client: LiveClient, number: int) -> None:
        topic = client.unfollow(number)
        if topic is None:
            return
        followers = self._followers[topic]
        del followers[client]
        if not followers:
            del self._followers[topic]
            self._targets.pop(topic, None)

    async def step(self) -> None:
        """Everything that is to be done now."""
        touches, self._touched = self._touched, set()
        try:
            await self._look_at_all()
            followed = {topic.name for topic in self._followers}
            news = each_place_once(await self._reader.read(touches, followed))
            for number, one in enumerate(news, 1):
                self._tell(one)
                if number % TELLS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            await self._tell_moved(touches)
        except Exception:
            self._touched |= touches
            raise
        if touches:
            await asyncio.sleep(self._gather_s)

    def _wake(self) -> None:
        if self._clients:
            self._loop.wake()

    # What was changed

    def _tell(self, news: News) -> None:
        for topic in news.topics:
            followers = self._followers.get(topic)
            if not followers:
                continue
            places = [news.target] if news.target is not None else []
            if topic.target is None:
                old = self._targets.pop(topic, None)
                places += [old] if old is not None and old != news.target else []
                if news.target is not None:
                    self._targets[topic] = news.target
            for client, number in tuple(followers.items()):
                if client.has_news(number):
                    continue
                self._look(client, self._rights.version)
                if _may_know(client.principal, topic, places):
                    client.tell(number)

    async def _tell_moved(self, touches: Iterable[Touch]) -> None:
        """Things move with their project, which is all that is written: look at each again that was there."""
        left = {
            touch.key
            for touch in touches
            if touch.subject in (Subject.EXPERIMENTS_OF, Subject.TASKS_OF)
        }
        if not left:
            return
        there = {
            topic: target
            for topic, target in self._targets.items()
            if not left.isdisjoint((target.workspace_id, *(target.shows or ())))
        }
        found = await self._places.find(there)
        for topic, target in there.items():
            now = found.get(topic)
            if now is None or _place(now) != _place(target):
                self._tell(News([topic], now))

    async def _find(self, topic: Topic) -> Target:
        """Raises NotFound."""
        found = await self._places.find([topic])
        if topic not in found:
            raise NotFound("experiment" if topic.name == "trials" else topic.name, topic.id or "")
        return found[topic]

    # Who may see what

    async def _look_at_all(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._look_again_at:
            self._look_again_at = now + LOOK_AGAIN_EVERY_S
            self._looked_at = -1
            for client in self._clients:
                client.rights_version = -1
        version = self._rights.version
        if self._looked_at == version:
            return
        for number, client in enumerate(tuple(self._clients), 1):
            self._look(client, version)
            if number % LOOKS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._looked_at = version

    def _look(self, client: LiveClient, version: int) -> None:
        if client.rights_version == version or client.closed is not None:
            return
        before = client.principal
        try:
            client.principal = client.look()
        except WindlassError as error:
            over = isinstance(error, Unauthenticated)
            client.close(SESSION_OVER if over else POLICY_VIOLATION, error.message)
            self.remove(client)
            return
        client.rights_version = version
        if not _grant_the_same(client.principal, before):
            for number in client.topics:
                client.tell(number)


def _place(target: Target) -> tuple[int | None, frozenset[int] | None]:
    return target.workspace_id, target.shows


def _may_know(principal: Principal, topic: Topic, places: Iterable[Target]) -> bool:
    return any(allowed(principal, action_for(topic, place), place) for place in places)


def _grant_the_same(one: Principal, other: Principal) -> bool:
    if one.rules is None or other.rules is None:
        return one == other and one.rules is other.rules
    return one == other and one.rules.grants_the_same(other.rules)
