"""The hub over a real store: what a page is told suffices to show the truth, and a stranger is told nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select
from sqlmodel import SQLModel

from master.auth.actions import Action, Target
from master.auth.principal import Principal, Rules
from master.auth.rights import Rights
from master.core.visibility import Visibility
from master.live import hub as hubs
from master.live.client import (
    HIDDEN_PACE_S,
    PACE_S,
    SESSION_OVER,
    SILENT,
    SILENT_S,
    TOO_SLOW,
    LiveClient,
)
from master.live.hub import LiveHub
from master.live.news import News, NewsReader, each_place_once
from master.live.places import Places
from master.live.topics import Topic, parse_topic
from master.store import tables
from master.store.store import Store
from master.store.touches import NOT_SHOWN, SOURCES, Subject, Touch
from master.store.unit_of_work import Table, UnitOfWork
from tests.examples import examples
from tests.fakes.stored_rows import NOW, experiment, trial
from tests.stores import leading_store
from windlass.base.clock import ManualClock
from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
    Unauthenticated,
    WindlassError,
)

WORKSPACES = (1, 2, 3)
PROJECTS = (11, 12, 21, 31)
"""The tenth of an id is its workspace at the beginning."""
TASKS_WORDS = ("t1", "t2")


@dataclass(frozen=True)
class InWorkspaces:
    """Rules of one who sees all that is in some workspaces."""

    workspaces: frozenset[int]

    def allowed(self, principal: Principal, action: Action, target: Target) -> bool:
        if target.workspace_id is None:
            return target.owner_id in (None, principal.user_id)
        return target.workspace_id in self.workspaces

    def denial(self, principal: Principal, action: Action, target: Target) -> WindlassError:
        return NotFound(target.kind, target.id)

    def visibility(self, principal: Principal, action: Action) -> Visibility:
        return Visibility(self.workspaces)

    def grants_the_same(self, other: Rules) -> bool:
        return self == other


@dataclass
class Person:
    """Somebody with an open page, which reads anew when it is told to."""

    rights: frozenset[int] | None = frozenset(WORKSPACES)
    """The workspaces that they see; None: logged out."""
    user_id: int = 1
    client: LiveClient | None = None
    read: dict[Topic, Any] = field(default_factory=dict)
    """What the page shows: of each topic the last answer."""
    changed: bool = False
    """Something was written that they see, or saw, or their rights are others, since the hub looked."""
    justified: set[Topic] = field(default_factory=set)
    """Of these they may be told, for such a reason."""

    def look(self) -> Principal:
        if self.rights is None:
            raise Unauthenticated("invalid credentials")
        rules = InWorkspaces(self.rights)
        return Principal(user_id=self.user_id, name="p", admin=False, rules=rules)

    def sees(self, workspace: int) -> bool:
        return self.rights is not None and workspace in self.rights


class World:
    def __init__(self, store: Store) -> None:
        self.store, self.rights, self.clock = store, Rights(), ManualClock()
        self.hub = LiveHub(store, self.rights, gather_s=0)
        self.people: list[Person] = []
        self._ids = count(1)

    async def begin(self) -> None:
        unit = UnitOfWork()
        user = {"username": "u", "password_hash": "", "created_at": NOW, "modified_at": NOW}
        unit.insert(tables.User, {"id": 1, **user}, {"id": 2, **user, "username": "v"})
        unit.insert(
            tables.Workspace, *({"id": id_, "name": f"w{id_}", "user_id": 1} for id_ in WORKSPACES)
        )
        unit.insert(
            tables.Project,
            *(
                {"id": id_, "name": f"p{id_}", "workspace_id": id_ // 10, "user_id": 1}
                for id_ in PROJECTS
            ),
        )
        await self.store.commit(unit)

    async def forget(self) -> None:
        """Nothing is there any more but what it began with."""
        unit = UnitOfWork()
        for table in (tables.Trial, tables.Experiment, tables.Template, tables.Task):
            unit.delete(table, {})
        for id_ in PROJECTS:
            unit.update(tables.Project, {"id": id_}, {"workspace_id": id_ // 10})
        await self.store.commit(unit)

    # What is there, as REST would say it

    async def truth(self, person: Person, topic: Topic) -> Any:
        projects = {
            row.id: row.workspace_id for row in await self.store.read(select(tables.Project))
        }
        experiments = {
            row.id: (row.state, row.project_id, projects[row.project_id])
            for row in await self.store.read(select(tables.Experiment))
        }
        trials = await self.store.read(select(tables.Trial))
        shown = {id_: found for id_, found in experiments.items() if person.sees(found[2])}
        of = [(row.id, row.experiment_id, row.steps_completed) for row in trials]
        of = sorted(one for one in of if one[1] in shown)
        match topic:
            case ("experiments", None):
                return shown, of
            case ("experiment" | "trials", id_):
                return shown.get(int(id_ or 0)), [one for one in of if one[1] == id_]
            case ("trial", id_):
                return [(one, shown[one[1]][2]) for one in of if one[0] == id_]
            case ("templates", None):
                rows = await self.store.read(select(tables.Template))
                return sorted((row.id, row.name) for row in rows if person.sees(row.workspace_id))
            case ("workspaces", None):
                return sorted(one for one in projects.items() if person.sees(one[1]))
        raise AssertionError(topic)

    async def commit(self, fill: Callable[[UnitOfWork], None], *touched: Topic) -> None:
        """And note who may be told of it: those who see where one of these is, or was."""
        places = await self._places(touched)
        unit = UnitOfWork()
        fill(unit)
        await self.store.commit(unit)
        places |= await self._places(touched)
        for person in self.people:
            if any(person.sees(place) for place in places):
                person.changed = True

    async def _places(self, touched: Iterable[Topic]) -> set[int]:
        projects = {one.id: one for one in await self.store.read(select(tables.Project))}
        experiments = {one.id: one for one in await self.store.read(select(tables.Experiment))}
        places = set()
        for name, id_ in touched:
            if name == "workspace":
                places.add(int(id_ or 0))
            elif name == "project":
                places.add(projects[int(id_ or 0)].workspace_id)
            elif id_ in experiments:
                places.add(projects[experiments[int(id_ or 0)].project_id].workspace_id)
        return places

    # What pages do

    async def connect(self, person: Person) -> None:
        if person.rights is not None:
            person.client = LiveClient(person.look, self.clock, {"version": "1"})
            self.hub.add(person.client)
            for topic in person.read:
                await self.follow(person, topic)

    def leave(self, person: Person) -> None:
        if person.client is not None:
            self.hub.remove(person.client)
            person.client = None

    async def follow(self, person: Person, topic: Topic) -> None:
        """The page reads first, and may be too early."""
        person.read[topic] = await self.truth(person, topic)
        if person.client is not None:
            with suppress(NotFound):
                await self.hub.follow(person.client, next(self._ids), topic)
            if topic not in person.client.topics.values():
                assert person.read[topic] in ((None, []), []), f"{topic} was refused"

    async def permit(self, person: Person, rights: frozenset[int] | None) -> None:
        if rights != person.rights:
            person.rights = rights
            person.changed = True
            self.rights.changed()

    async def take(self, person: Person) -> None:
        """Read what was told, and what it is about."""
        client = person.client
        while client is not None and client.closed is None and _waits(client):
            message = json.loads(await client.next() or "{}")
            for number, seq in message.get("news", {}).items():
                topic = client.topics.get(int(number))
                if topic is not None:
                    assert seq == 0 or topic in person.justified, f"told of {topic} for nothing"
                    if seq:
                        person.justified.discard(topic)
                    person.read[topic] = await self.truth(person, topic)

    async def step(self) -> None:
        for person in self.people:
            if person.changed:
                person.changed = False
                person.justified.update(person.read)
        await self.hub.step()

    async def pause(self) -> None:
        """Everything is told; then every page is right."""
        await self.step()
        for person in self.people:
            if person.client is not None:
                person.client.show(visible=True)
            await self.take(person)
            if person.client is None or person.client.closed is not None:
                self.leave(person)
                await self.connect(person)
                await self.take(person)
            followed = set(person.client.topics.values()) if person.client is not None else set()
            for topic in followed:
                assert person.read[topic] == await self.truth(person, topic), topic


def _waits(client: LiveClient) -> bool:
    return bool(client._replies or client._news)


class Walk:
    """Random steps of one seed."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._draw = world, Random(seed)
        self._ids = count(1)
        self._experiments: list[int] = []
        self._trials: list[int] = []

    async def play(self, steps: int) -> None:
        world, draw = self._world, self._draw
        world.people = [Person(user_id=n) for n in (1, 2, 3)]
        for _ in range(4):
            await self._add()
        for person in world.people:
            await world.permit(person, self._rights())
            for _ in range(3):
                person.read.setdefault(self._topic())
            await world.connect(person)
        for number in range(steps):
            await self._step(draw.choice(world.people))
            if number % 4 == 3:
                await world.pause()
        await world.pause()
        for person in world.people:
            world.leave(person)

    async def _step(self, person: Person) -> None:
        world, draw = self._world, self._draw
        match draw.randrange(12):
            case 0:
                await self._add()
            case 1 | 2:
                await self._change(
                    tables.Experiment, self._experiments, "state", f"S{next(self._ids)}"
                )
            case 3:
                await self._change(tables.Trial, self._trials, "steps_completed", next(self._ids))
            case 4:
                await self._change(
                    tables.Experiment, self._experiments, "project_id", draw.choice(PROJECTS)
                )
            case 5:
                await self._change(
                    tables.Project, list(PROJECTS), "workspace_id", draw.choice(WORKSPACES)
                )
            case 6 if self._experiments:
                await self._remove(draw.choice(self._experiments))
            case 7:
                id_, place = next(self._ids), draw.choice(WORKSPACES)
                times = {"created_at": NOW, "modified_at": NOW, "config": {}, "owner_id": 1}
                row = {"id": id_, "name": f"t{id_}", "workspace_id": place, **times}
                where = Topic("workspace", place)
                await world.commit(lambda unit: unit.insert(tables.Template, row), where)
            case 8:
                await world.permit(person, self._rights())
            case 9:
                topic = self._topic()
                if topic not in person.read:
                    await world.follow(person, topic)
            case 10:
                world.leave(person)
                await world.connect(person)
            case _:
                await world.step()
                await world.take(person)

    async def _add(self) -> None:
        id_ = next(self._ids)
        row = {**experiment(id_), "project_id": self._draw.choice(PROJECTS)}
        run = {**trial(id_), "experiment_id": id_, "request_id": str(id_), "task_id": f"x{id_}"}

        def fill(unit: UnitOfWork) -> None:
            unit.insert(tables.Experiment, row)
            unit.insert(tables.Trial, run)

        await self._world.commit(fill, Topic("experiment", id_))
        self._experiments.append(id_)
        self._trials.append(id_)

    async def _change(self, table: Table, among: list[int], column: str, value: object) -> None:
        if among:
            id_ = self._draw.choice(among)
            topic = Topic("project" if table is tables.Project else "experiment", id_)
            await self._world.commit(
                lambda unit: unit.update(table, {"id": id_}, {column: value}), topic
            )

    async def _remove(self, id_: int) -> None:
        self._experiments.remove(id_)
        self._trials.remove(id_)
        statement: Any = delete(tables.Trial)

        def fill(unit: UnitOfWork) -> None:
            unit.execute(statement.where(tables.Trial.id.in_([id_])))
            unit.delete(tables.Experiment, {"id": id_})

        await self._world.commit(fill, Topic("experiment", id_))

    def _rights(self) -> frozenset[int] | None:
        if self._draw.random() < 0.1:
            return None
        return frozenset(self._draw.sample(WORKSPACES, self._draw.randint(0, 3)))

    def _topic(self) -> Topic:
        name = self._draw.choice(
            ("experiments", "experiment", "trials", "trial", "templates", "workspaces")
        )
        needs_id = name in ("experiment", "trials", "trial")
        return Topic(name, self._draw.randint(1, 6) if needs_id else None)


def test_what_is_told_suffices_and_nobody_is_told_of_what_they_may_not_see() -> None:
    """Commits, moves, deletions, rights, topics, reconnections: all at random."""
    with asyncio.Runner() as runner:
        exits = AsyncExitStack()
        opening = leading_store("sqlite://", ManualClock(), inline=True)
        store = runner.run(exits.enter_async_context(opening))
        runner.run(World(store).begin())

        @given(seed=st.integers(0, 2**32))
        @settings(max_examples=examples(8), deadline=None)
        def holds(seed: int) -> None:
            runner.run(World(store).forget())
            store.touched.clear()
            runner.run(Walk(World(store), seed).play(30))

        holds()
        runner.run(exits.aclose())


# One page


def read_all(client: LiveClient, after_s: float = 0.0) -> list[dict[str, Any]]:
    """What is sent to it by then."""
    now = asyncio.get_running_loop().time() + after_s
    found = []
    while (message := client.take(now)) is not None:
        found.append(json.loads(message))
    return found


@pytest.fixture
async def hub_world(memory_store: Store) -> World:
    world = World(memory_store)
    await world.begin()
    world.people = [Person()]
    await world.connect(world.people[0])
    return world


def page_of(world: World) -> LiveClient:
    client = world.people[0].client
    assert client is not None
    return client


async def rename(world: World, name: str) -> None:
    unit = UnitOfWork()
    unit.update(tables.Project, {"id": 11}, {"name": name})
    await world.store.commit(unit)
    await world.hub.step()


async def test_many_changes_are_few_messages_and_fewer_for_a_page_that_nobody_sees(
    hub_world: World,
) -> None:
    page = page_of(hub_world)
    await hub_world.hub.follow(page, 5, Topic("workspaces"))
    hello, accepted = read_all(page)
    assert hello["hello"]["version"] == "1"
    assert accepted == {"news": {"5": 0}}
    await rename(hub_world, "a")
    assert read_all(page) == [{"news": {"5": 1}}]
    for name in "bcd":
        await rename(hub_world, name)
        assert read_all(page) == []
    assert read_all(page, PACE_S) == [{"news": {"5": 2}}]
    page.show(visible=False)
    await rename(hub_world, "e")
    assert read_all(page, 1.0) == [{"news": {"5": 3}}]
    await rename(hub_world, "f")
    assert read_all(page, HIDDEN_PACE_S - 0.1) == []
    page.show(visible=True)
    assert read_all(page) == [{"news": {"5": 4}}], "whoever looks again sees what is now"
    hub_world.hub.unfollow(page, 5)
    await rename(hub_world, "g")
    assert read_all(page, 1.0) == []


async def test_two_tabs_are_told_each_by_its_own_numbers(hub_world: World) -> None:
    hub_world.people.append(Person())
    await hub_world.connect(hub_world.people[1])
    first, second = page_of(hub_world), hub_world.people[1].client
    assert second is not None
    await hub_world.hub.follow(first, 1, Topic("workspaces"))
    await hub_world.hub.follow(second, 9, Topic("workspaces"))
    with pytest.raises(Conflict, match="followed already"):
        await hub_world.hub.follow(first, 2, Topic("workspaces"))
    read_all(first), read_all(second)
    hub_world.hub.remove(first)
    await rename(hub_world, "a")
    assert read_all(first) == []
    assert read_all(second) == [{"news": {"9": 1}}]


async def test_a_page_that_does_not_answer_is_sent_away(hub_world: World) -> None:
    page = page_of(hub_world)
    read_all(page)
    assert list(*read_all(page, SILENT_S - 1)) == ["now"]
    page.heard()
    assert read_all(page, SILENT_S + 100) == []
    assert page.closed is not None
    assert page.closed.code == SILENT


async def test_a_page_that_asks_and_does_not_read_is_sent_away(hub_world: World) -> None:
    page = page_of(hub_world)
    for number in range(2_000):
        page.refuse(number, 404, "not found")
    assert page.closed is not None
    assert page.closed.code == TOO_SLOW
    assert await page.next() is None


async def test_a_login_that_ends_ends_its_pages(hub_world: World) -> None:
    page = page_of(hub_world)
    await hub_world.hub.follow(page, 1, Topic("me", 1))
    await hub_world.permit(hub_world.people[0], None)
    await hub_world.hub.step()
    assert page.closed is not None
    assert (page.closed.code, page.closed.reason) == (SESSION_OVER, "invalid credentials")
    await hub_world.hub.step()


async def test_the_numbers_of_pages_and_topics_are_bounded(
    hub_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = page_of(hub_world)
    monkeypatch.setattr(hubs, "MAX_TOPICS", 2)
    for number, name in enumerate(("users", "groups"), 1):
        await hub_world.hub.follow(page, number, Topic(name))
    with pytest.raises(InvalidArgument, match="2 topics"):
        await hub_world.hub.follow(page, 3, Topic("costs"))
    monkeypatch.setattr(hubs, "MAX_OF_ONE_USER", 1)
    with pytest.raises(StoreUnavailable, match="of this user"):
        await hub_world.connect(Person())
    await hub_world.connect(Person(user_id=2))
    monkeypatch.setattr(hubs, "MAX_CLIENTS", 2)
    with pytest.raises(StoreUnavailable, match="2 pages"):
        await hub_world.connect(Person(user_id=3))


async def test_what_cannot_be_looked_up_now_is_told_later(
    hub_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, plain = page_of(hub_world), Places.experiments

    async def locked(*_: object) -> None:
        raise StoreUnavailable("database is locked")

    unit = UnitOfWork()
    unit.insert(tables.Experiment, {**experiment(1), "project_id": 11})
    await hub_world.store.commit(unit)
    await hub_world.hub.follow(page, 1, Topic("experiment", 1))
    read_all(page)
    monkeypatch.setattr(Places, "experiments", locked)
    hub_world.hub.note([Touch(Subject.EXPERIMENT, 1)])
    with pytest.raises(StoreUnavailable):
        await hub_world.hub.step()
    monkeypatch.setattr(Places, "experiments", plain)
    await hub_world.hub.step()
    assert read_all(page) == [{"news": {"1": 1}}]


async def test_what_stays_where_it_is_has_no_news_when_another_leaves(hub_world: World) -> None:
    page = page_of(hub_world)
    statement: Any = delete(tables.Experiment)
    unit = UnitOfWork()
    unit.insert(tables.Experiment, *({**experiment(n), "project_id": 11} for n in (1, 2)))
    await hub_world.store.commit(unit)
    await hub_world.hub.step()
    for number in (1, 2):
        await hub_world.hub.follow(page, number, Topic("experiment", number))
    read_all(page)
    unit = UnitOfWork()
    unit.execute(statement.where(tables.Experiment.id == 2))
    await hub_world.store.commit(unit)
    await hub_world.hub.step()
    assert read_all(page) == [{"news": {"2": 1}}]
    unit = UnitOfWork()
    unit.update(tables.Project, {"id": 11}, {"workspace_id": 2})
    await hub_world.store.commit(unit)
    await hub_world.hub.step()
    assert read_all(page, PACE_S) == [{"news": {"1": 1}}]


async def test_who_loses_a_right_while_the_store_is_read_is_told_nothing(
    hub_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, plain = page_of(hub_world), Places.experiments
    unit = UnitOfWork()
    unit.insert(tables.Experiment, *({**experiment(n), "project_id": 11} for n in (1, 2)))
    await hub_world.store.commit(unit)
    await hub_world.hub.follow(page, 1, Topic("experiment", 1))
    read_all(page)

    async def read(self: Places, ids: Collection[int]) -> Mapping[int, Target]:
        found = await plain(self, ids)
        await hub_world.permit(hub_world.people[0], None)
        return found

    monkeypatch.setattr(Places, "experiments", read)
    hub_world.hub.note([Touch(Subject.EXPERIMENT, 1)])
    await hub_world.hub.step()
    assert read_all(page) == []
    assert page.closed is not None


async def test_news_of_a_trial_are_news_of_its_experiment_for_who_may_see_that_alone(
    hub_world: World,
) -> None:
    unit = UnitOfWork()
    unit.insert(tables.Experiment, {**experiment(7), "project_id": 11})
    unit.insert(tables.Trial, {**trial(9), "experiment_id": 7})
    await hub_world.store.commit(unit)
    reader = NewsReader(Places(hub_world.store))
    news = await reader.read([Touch(Subject.TRIAL, 9)], {"experiment", "trial"})
    told = {topic: one.target for one in news for topic in one.topics}
    kinds = {str(topic): target and str(target) for topic, target in told.items()}
    assert kinds == {
        "trial 9": "trial 9",
        "experiments": "experiment 7",
        "experiment 7": "experiment 7",
        "trials 7": "experiment 7",
    }


def test_runs_of_one_experiment_are_one_piece_of_news_to_who_follows_it() -> None:
    places = [
        Target(kind="trial", id=n, owner_id=1, workspace_id=place, experiment_id=7)
        for n, place in enumerate((1, 1, 2))
    ]
    news = [News([Topic("trial", int(one.id)), Topic("trials", 7)], one) for one in places]
    told = [(topic, one.target) for one in each_place_once(news) for topic in one.topics]
    assert [target for topic, target in told if topic.name == "trials"] == [places[0], places[2]]
    assert [topic.id for topic, _ in told if topic.name == "trial"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("everything", "must begin with one of experiments, experiment,"),
        ("experiments 7", "experiments takes no id"),
        ("experiment", "needs the id of one"),
        ("experiment x", "needs a number"),
        (f"trial {2**31}", "needs a number up to 2147483647"),
        ("trial ³", "needs a number"),
        ("task a\0", "needs the id of one"),
    ],
)
def test_a_topic_that_is_none_is_refused_in_words(text: str, said: str) -> None:
    who = Principal(user_id=1, name="p", admin=False)
    with pytest.raises(InvalidArgument, match=said):
        parse_topic(text, who)


def test_every_table_tells_something_or_has_a_reason_not_to() -> None:
    models = {
        one.class_ for one in SQLModel._sa_registry.mappers if "store.tables" in str(one.class_)
    }
    assert models == set(SOURCES) | set(NOT_SHOWN)
    assert not set(SOURCES) & set(NOT_SHOWN)
