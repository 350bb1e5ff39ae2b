"""The hub over a real store: after each pause the picture of every client equals the database."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from master.api.updates.requests import parse_subscription
from master.auth.rights import Rights
from master.core.updates.subscription import ShownRow
from master.core.visibility import EVERYTHING, Visibility
from master.store import tables
from master.store.change_feed import Change
from master.store.sql import changes
from master.store.sql.changes import MODELS, PROJECTS, VERSIONS
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.updates import outbox as outboxes
from master.updates.entities import KINDS, Entities, Entity
from master.updates.hub import TOO_SLOW, Client, Sight, UpdateHub
from tests.examples import examples
from tests.fakes.updates_client import Picture, Rows
from tests.stores import leading_store
from windlass.base.clock import ManualClock
from windlass.base.errors import Conflict, Unauthenticated, WindlassError

CHECKPOINT = "12345678-1234-1234-1234-123456789012"
WORKSPACES = (1, 2, 3)
USERS = (1, 2)


@dataclass
class Person:
    """Somebody with a program that follows changes."""

    picture: Picture = field(default_factory=Picture)
    filters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    visible: Visibility | None = EVERYTHING
    """None: logged out."""
    client: Client | None = None

    def look(self) -> Sight:
        if self.visible is None:
            raise Unauthenticated("invalid credentials")
        return {kind.name: self.visible for kind in KINDS}

    def sees(self, row: Mapping[str, Any], kind: str) -> bool:
        """By the reference: one of the filters is enough, and a right in its workspace is needed."""
        wanted = self.filters.get(kind, {})
        names = {
            PROJECTS: (("workspace_ids", "workspace_id"), ("project_ids", "id")),
            MODELS: (
                ("workspace_ids", "workspace_id"),
                ("model_ids", "id"),
                ("user_ids", "user_id"),
            ),
            VERSIONS: (
                ("model_ids", "model_id"),
                ("model_version_ids", "id"),
                ("user_ids", "user_id"),
            ),
        }
        chosen = any(row[key] in (wanted.get(name) or ()) for name, key in names[kind])
        return chosen and int(row["workspace_id"]) in (self.visible or Visibility(frozenset()))


class World:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.rights = Rights()
        self.hub = UpdateHub(store, self.rights, gather_s=0)
        self._ids = count(1)

    async def commit(self, *changes: Callable[[UnitOfWork], None]) -> None:
        unit = UnitOfWork()
        for change in changes:
            change(unit)
        await self.store.commit(unit)

    async def begin(self) -> None:
        now = ManualClock().now()
        user = {"password_hash": "", "created_at": now, "modified_at": now}
        checkpoint = {"task_id": "t", "state": "COMPLETED", "resources": {}, "meta": {}}
        await self.commit(
            lambda unit: unit.insert(
                tables.User, *({"id": id_, "username": f"u{id_}", **user} for id_ in USERS)
            ),
            lambda unit: unit.insert(
                tables.Workspace,
                *({"id": id_, "name": f"w{id_}", "user_id": 1} for id_ in WORKSPACES),
            ),
            lambda unit: unit.insert(
                tables.Checkpoint, {"uuid": CHECKPOINT, "reported_at": now, **checkpoint}
            ),
        )

    async def forget(self) -> None:
        """Nothing is there any more."""
        every = (tables.ModelVersion, tables.Model, tables.Project, tables.Change)
        await self.commit(*(partial(UnitOfWork.delete, table=table, where={}) for table in every))

    # What people do with projects and models

    async def add_project(self, workspace: int, user: int) -> None:
        id_ = next(self._ids)
        row = {"id": id_, "name": f"p{id_}", "workspace_id": workspace, "user_id": user}
        await self.commit(lambda unit: unit.insert(tables.Project, row))

    async def add_model(self, workspace: int, user: int) -> None:
        id_, now = next(self._ids), ManualClock().now()
        times = {"created_at": now, "modified_at": now, "labels": [], "meta": {}}
        row = {"id": id_, "name": f"m{id_}", "workspace_id": workspace, "owner_id": user, **times}
        await self.commit(lambda unit: unit.insert(tables.Model, row))

    async def add_version(self, number: int, user: int) -> None:
        models = await self.store.read(select(tables.Model.id).order_by(tables.Model.id))
        if models:
            id_, now = next(self._ids), ManualClock().now()
            times = {"created_at": now, "modified_at": now, "labels": [], "meta": {}}
            row = {"id": id_, "model_id": models[number % len(models)], "version": id_, **times}
            row |= {"checkpoint_uuid": CHECKPOINT, "owner_id": user}
            await self.commit(lambda unit: unit.insert(tables.ModelVersion, row))

    async def change(self, kind: str, number: int, workspace: int | None) -> None:
        """Renames it, or moves it there."""
        table: Any = {"p": tables.Project, "m": tables.Model, "v": tables.ModelVersion}[kind]
        if (id_ := await self._nth(table, number)) is not None:
            move = workspace is not None and kind != "v"
            new = {"workspace_id": workspace} if move else {"notes": [] if kind == "p" else "new"}
            await self.commit(lambda unit: unit.update(table, {"id": id_}, new, expect=1))

    async def delete(self, kind: str, number: int) -> None:
        table: Any = {"p": tables.Project, "m": tables.Model, "v": tables.ModelVersion}[kind]
        if (id_ := await self._nth(table, number)) is not None:
            if kind == "m":
                where = {"model_id": id_}
                await self.commit(lambda unit: unit.delete(tables.ModelVersion, where))
            await self.commit(lambda unit: unit.delete(table, {"id": id_}))

    async def delete_all_in(self, workspace: int) -> None:
        """Their rows are chosen by no id."""
        where = {"workspace_id": workspace}
        await self.commit(
            lambda unit: unit.update(tables.Project, where, {"state": "DELETING"}),
            lambda unit: unit.delete(tables.Project, where),
        )

    async def _nth(self, table: Any, number: int) -> int | None:
        ids: list[int] = await self.store.read(select(table.id).order_by(table.id))
        return ids[number % len(ids)] if ids else None

    # What programs do

    async def subscribe(
        self, person: Person, filters: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """With another filter, or as before; connects if it is away."""
        if filters is not None:
            person.filters = filters
        if person.visible is None:
            return
        if person.client is None:
            person.client = Client("somebody", person.look)
            self.hub.add(person.client)
        text = json.dumps(person.picture.subscription(person.filters))
        syncing = asyncio.create_task(self.hub.sync(person.client, parse_subscription(text)))
        await asyncio.sleep(0)
        await self.hub.step()
        await syncing

    def leave(self, person: Person) -> None:
        if person.client is not None:
            self.hub.remove(person.client)
            person.client = None

    async def read(self, person: Person, number: int) -> None:
        """So many messages, if there are some."""
        client = person.client
        while client is not None and number and (client.outbox or client.outbox.closed):
            message = await self.hub.next(client)
            if message is None:
                self.leave(person)
                break
            person.picture.take(message)
            number -= 1

    async def permit(self, person: Person, visible: Visibility | None) -> None:
        person.visible = visible
        self.rights.changed()

    async def pause(self, people: list[Person]) -> None:
        """Everybody is told everything, and who is away connects."""
        for person in people:
            if person.client is None:
                await self.subscribe(person)
        for _ in range(4):
            await self.hub.step()
            for person in people:
                await self.read(person, -1)
        present = await self._everything()
        for person in people:
            if person.visible is None:
                assert person.client is None
                continue
            assert person.picture.is_complete
            for name, rows in present.items():
                seen = {id_: row for id_, row in rows.items() if person.sees(row, name)}
                assert person.picture.rows[name] == seen

    async def _everything(self) -> dict[str, Rows]:
        changes = await self.store.read(select(tables.Change))
        seqs = {(one.kind, one.entity_id): one.seq for one in changes if not one.deleted}
        places: dict[int, int] = {}
        found: dict[str, Rows] = {}
        for kind, table in TABLES.items():
            rows = await self.store.read(select(table))
            if kind == MODELS:
                places = {row.id: row.workspace_id for row in rows}
            found[kind] = {row.id: _shown(kind, row, seqs[kind, row.id], places) for row in rows}
        return found


TABLES: Mapping[str, Any] = {
    PROJECTS: tables.Project,
    MODELS: tables.Model,
    VERSIONS: tables.ModelVersion,
}
PLAIN = {
    PROJECTS: "name description archived workspace_id user_id immutable key",
    MODELS: "name description archived workspace_id",
    VERSIONS: "name version checkpoint_uuid model_id comment",
}


def _shown(kind: str, row: Any, seq: int, places: Mapping[int, int]) -> Mapping[str, Any]:
    """By the reference."""
    same = {name: getattr(row, name) for name in PLAIN[kind].split()}
    shared = {"id": row.id, "seq": seq, "notes": row.notes, **same}
    if kind == PROJECTS:
        return {**shared, "created_at": None, "state": row.state or "UNSPECIFIED"}
    if kind == VERSIONS:
        shared["workspace_id"] = str(places[row.model_id])
    return {
        **shared,
        "creation_time": row.created_at.timestamp(),
        "last_updated_time": row.modified_at.timestamp(),
        "metadata": row.meta,
        "labels": row.labels,
        "user_id": row.owner_id,
    }


class Walk:
    """Random steps of one seed: Hypothesis itself draws moves of rows that somebody follows far too seldom."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = Random(seed)
        self._people = [Person(filters=self._filters()) for _ in range(3)]

    async def play(self, steps: int) -> None:
        world, draw = self._world, self._random
        for place in WORKSPACES:
            await world.add_project(place, draw.choice(USERS))
            await world.add_model(place, draw.choice(USERS))
            await world.add_version(place, draw.choice(USERS))
        await world.pause(self._people)
        for number in range(steps):
            await self._step()
            if number % 5 == 4:
                await world.pause(self._people)
        await world.pause(self._people)
        for person in self._people:
            world.leave(person)

    async def _step(self) -> None:
        world, draw = self._world, self._random
        kind, number = draw.choice("pmv"), draw.randrange(20)
        place, owner = draw.choice(WORKSPACES), draw.choice(USERS)
        person = draw.choice(self._people)
        match draw.randrange(12):
            case 0:
                await world.add_project(place, owner)
            case 1:
                await world.add_model(place, owner)
            case 2 | 3:
                await world.add_version(number, owner)
            case 4:
                await world.change(kind, number, None)
            case 5 | 6:
                await world.change(draw.choice("pm"), number, place)
            case 7:
                await world.delete(kind, number)
            case 8:
                await world.permit(person, self._sight())
            case 9:
                await world.subscribe(person, draw.choice((None, self._filters())))
            case 10:
                world.leave(person)
            case _:
                await world.read(person, draw.randint(1, 3))
                await world.hub.step()

    def _sight(self) -> Visibility | None:
        if self._random.random() < 0.2:
            return None
        some = self._random.sample(WORKSPACES, self._random.randint(0, 2))
        return self._random.choice((EVERYTHING, Visibility(frozenset(some))))

    def _filters(self) -> Mapping[str, Mapping[str, Any]]:
        draw = self._random

        def lists(**among: Sequence[int]) -> dict[str, list[int]]:
            names = draw.sample(sorted(among), draw.randint(0, len(among)))
            return {name: draw.sample(among[name], 2) for name in names}

        ids = range(1, 20)
        wanted = {
            PROJECTS: lists(workspace_ids=WORKSPACES, project_ids=ids),
            MODELS: lists(workspace_ids=WORKSPACES, model_ids=ids, user_ids=USERS),
            VERSIONS: lists(model_ids=ids, model_version_ids=ids, user_ids=USERS),
        }
        return {name: wanted[name] for name in draw.sample(sorted(wanted), draw.randint(1, 3))}


def test_after_each_pause_every_picture_equals_the_database() -> None:
    """Commits, filters, rights, reconnections: all at random."""
    with asyncio.Runner() as runner:
        exits, clock = AsyncExitStack(), ManualClock()
        opening = leading_store("sqlite://", clock, inline=True)
        store = runner.run(exits.enter_async_context(opening))
        runner.run(World(store).begin())

        @given(seed=st.integers(0, 2**32))
        @settings(max_examples=examples(20), deadline=None)
        def holds(seed: int) -> None:
            runner.run(World(store).forget())
            runner.run(Walk(World(store), seed).play(40))

        holds()
        runner.run(exits.aclose())


@pytest.mark.parametrize("read", range(8))
async def test_who_is_cut_off_anywhere_misses_no_change(memory_store: Store, read: int) -> None:
    """What it is told has ascending numbers: by the highest it asks for the rest."""
    world = World(memory_store)
    await world.begin()
    person = Person(filters={PROJECTS: {"workspace_ids": [1]}})
    for _ in range(6):
        await world.add_project(1, 1)
    await world.pause([person])
    for number in (4, 1, 5, 0):
        await world.change("p", number, None)
    await world.hub.step()
    await world.change("p", 4, None)
    await world.permit(person, Visibility(frozenset({2})))
    await world.hub.step()
    await world.permit(person, EVERYTHING)
    await world.change("p", 2, None)
    await world.hub.step()
    await world.read(person, read)
    world.leave(person)
    await world.pause([person])


async def test_what_changes_while_the_hub_reads_is_not_told_before_what_changed_earlier(
    memory_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(memory_store)
    await world.begin()
    person = Person(filters={PROJECTS: {"workspace_ids": [1]}})
    for _ in range(2):
        await world.add_project(1, 1)
    await world.pause([person])
    plain = Entities.read

    async def read(*args: Any) -> Mapping[int, Entity]:
        monkeypatch.setattr(Entities, "read", plain)
        await world.change("p", 1, None)
        await world.change("p", 0, None)
        return await plain(*args)

    await world.change("p", 0, None)
    monkeypatch.setattr(Entities, "read", read)
    await world.hub.step()
    await world.read(person, 1)
    world.leave(person)
    await world.pause([person])


async def test_who_leaves_while_the_hub_reads_leaves_nothing(
    memory_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(memory_store)
    await world.begin()
    await world.add_project(1, 1)
    person = Person(filters={PROJECTS: {"workspace_ids": [1]}})
    await world.pause([person])  # what it knows already is not told again
    world.leave(person)
    plain = Entities.present

    async def present(*args: Any) -> Mapping[int, ShownRow]:
        world.leave(person)
        return await plain(*args)

    monkeypatch.setattr(Entities, "present", present)
    here = weakref.WeakSet[Client]()
    world.hub.add(client := Client("somebody", person.look))
    person.client = client
    here.add(client)
    del client
    await world.subscribe(person)
    assert person.client is None
    gc.collect()
    assert not here


async def test_who_logs_out_while_the_hub_reads_holds_it_up_no_longer(
    memory_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(memory_store)
    await world.begin()
    await world.add_project(1, 1)
    person = Person(filters={PROJECTS: {"workspace_ids": [1]}})
    other = Person(filters=person.filters)
    plain, reads = Entities.present, 0

    async def present(*args: Any) -> Mapping[int, ShownRow]:
        nonlocal reads
        reads += 1
        assert reads < 10, "the hub reads again and again for somebody who is gone"
        if person.visible is not None:
            await world.permit(person, None)
        return await plain(*args)

    monkeypatch.setattr(Entities, "present", present)
    await world.subscribe(person)
    assert person.client is not None
    assert await world.hub.next(person.client) is None
    world.leave(person)
    await world.pause([person, other])
    assert len(other.picture.rows[PROJECTS]) == 1


async def test_a_slow_reader_is_sent_away_and_finds_all_again(
    memory_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "MAX_WAITING", 3)
    world = World(memory_store)
    await world.begin()
    slow = Person(filters={PROJECTS: {"workspace_ids": [1]}})
    quick = Person(filters=slow.filters)
    for person in (slow, quick):
        await world.subscribe(person)
        await world.read(person, 3)
    for number in range(2):  # those of one row are one message
        await world.add_project(1, 1)
        await world.change("p", number, None)
        await world.hub.step()
        await world.read(quick, -1)
    assert slow.client is not None
    assert len(slow.client.outbox) == 2
    await world.add_project(1, 1)
    await world.add_project(1, 1)
    await world.hub.step()
    assert slow.client.outbox.closed == TOO_SLOW
    assert await world.hub.next(slow.client) is None
    world.leave(slow)
    await world.pause([slow, quick])
    assert len(slow.picture.rows[PROJECTS]) == 4


async def test_deletions_wait_in_one_message(memory_store: Store) -> None:
    world = World(memory_store)
    await world.begin()
    person = Person(filters={PROJECTS: {"workspace_ids": [1]}})
    for _ in range(4):
        await world.add_project(1, 1)
    await world.subscribe(person)
    await world.read(person, -1)
    assert person.client is not None
    await world.permit(person, Visibility(frozenset({2})))
    await world.hub.step()
    assert await world.hub.next(person.client) == '{"projects_deleted":"1-4"}'


async def test_the_feed_survives_a_restart_and_is_compacted(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "KEPT_DELETIONS", 3)
    heard: list[Change] = []
    async with leading_store(db_url, ManualClock()) as store:
        store.changes.listen(heard.extend)
        world = World(store)
        await world.begin()
        await world.add_model(1, 1)
        await world.add_version(0, 1)
        await world.add_project(1, 1)
        await world.change("m", 0, 2)
        with pytest.raises(Conflict):
            await world.commit(
                lambda unit: unit.delete(tables.Project, {}),
                lambda unit: unit.update(tables.Model, {"id": 9}, {"notes": ""}, expect=1),
            )
    told = [(one.kind, one.seq, one.deleted) for one in heard]
    assert told == [
        *((MODELS, 1, False), (VERSIONS, 2, False), (PROJECTS, 3, False)),
        *((MODELS, 4, False), (VERSIONS, 5, False)),  # which is where its model is
    ]
    async with leading_store(db_url, ManualClock()) as store:
        world = World(store)
        ids = count(10)
        for id_ in (next(ids) for _ in range(6)):
            row = {"id": id_, "name": f"p{id_}", "workspace_id": 1, "user_id": 1}
            await world.commit(
                lambda unit, row=row: unit.insert(tables.Project, row),
                lambda unit, id_=id_: unit.delete(tables.Project, {"id": id_}),
            )
        rows = await store.read(select(tables.Change).order_by(tables.Change.seq))
        seqs = [(row.seq, row.deleted) for row in rows]
    assert seqs == [(3, False), (4, False), (5, False), (9, True), (10, True), (11, True)]


async def test_a_watched_table_is_changed_by_no_free_statement(memory_store: Store) -> None:
    with pytest.raises(WindlassError, match="project is watched"):
        await World(memory_store).commit(lambda unit: unit.execute(delete(tables.Project)))
