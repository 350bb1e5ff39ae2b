"""Random filters and sorts over random experiments and runs: SQL finds what plain Python finds, on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from master.core.visibility import EVERYTHING, Visibility
from master.experiments.finding.columns import COLUMNS, Kind, Table
from master.experiments.finding.filters import (
    Condition,
    Filter,
    Group,
    Node,
    Not,
    Operator,
    parse_filter,
)
from master.experiments.finding.language import parse
from master.experiments.finding.literals import STATE, STATES, Reader
from master.experiments.finding.live_states import LIVE, QUEUED, RUNNING, LiveStates
from master.experiments.finding.queries import Finder, Search
from master.experiments.finding.sorts import parse_sorts
from master.store import tables
from master.store.paging import Page
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.examples import examples
from tests.fakes.plain_filter import Subject, matches, sorted_ids
from tests.fakes.printed_filters import printed
from tests.stores import leading_store
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=1)
OTHER = {"name": "q", "key": "Q", "archived": True}
READER = Reader(username="ann", now=NOW)
KEYS = ("a", "b", "0", "é", 'q"\\', "")
"""Of JSON: plain ones, one like an index of an array, and what paths in SQL have trouble with."""
WORDS = ("", "a", "ab", "Ab", "é", "100%", "_", "'", 'x"y')
NUMBERS = (-3, -1, 0, 1, 2, 0.5, -0.25, 1e-9, 2.0, 1e300, 10**22)


@dataclass(frozen=True, slots=True)
class World:
    experiments: Sequence[dict[str, Any]]
    trials: Sequence[dict[str, Any]]
    checkpoints: Sequence[dict[str, Any]]
    live: Mapping[Table, LiveStates]

    def search(self, table: Table, wanted: Filter, sort: str) -> Search:
        return Search(filter=wanted, sorts=parse_sorts(sort, table), live=self.live[table])


class Draw(Random):
    """Random parts of worlds and searches."""

    def scalar(self) -> Any:
        return self.choice((None, True, False, self.choice(NUMBERS), self.choice(WORDS)))

    def time(self) -> datetime:
        return START + timedelta(microseconds=self.choice((0, 1, 999_999, self.randrange(10**11))))

    def free(self, depth: int = 0) -> Any:
        match self.randrange(4 if depth < 3 else 3):
            case 0 | 1:
                return self.scalar()
            case 2:
                return [self.scalar() for _ in range(self.randrange(3))]
            case _:
                return self.object(depth + 1)

    def object(self, depth: int = 0) -> dict[str, Any]:
        return {self.choice(KEYS): self.free(depth) for _ in range(self.randrange(4))}

    def space(self, depth: int = 0) -> dict[str, Any]:
        return {self.choice(KEYS): self.leaf(depth) for _ in range(self.randrange(4))}

    def leaf(self, depth: int) -> dict[str, Any]:
        match self.randrange(5 if depth < 2 else 4):
            case 0 | 1:
                return {"type": "const", "val": self.free()}
            case 2:
                return {"type": "categorical", "vals": [self.scalar() for _ in range(2)]}
            case 3:
                low, high = sorted((self.choice(NUMBERS), self.choice(NUMBERS)))
                kind = self.choice(("int", "double", "log"))
                return {"type": kind, "minval": low, "maxval": high}
            case _:
                return self.space(depth + 1)

    def summary(self) -> dict[str, Any]:
        groups = self.sample(("avg_metrics", "validation_metrics", "own"), self.randrange(4))
        return {
            group: {
                name: {"last": self.scalar(), self.choice(("min", "max")): self.choice(NUMBERS)}
                for name in self.sample(("loss", "a.b", "é"), 2)
            }
            for group in groups
        }

    def world(self) -> World:
        experiments = [self.experiment(id_) for id_ in range(1, 2 + self.randrange(5))]
        trials = [
            self.trial(id_, self.choice(experiments)["id"])
            for id_ in range(1, 1 + self.randrange(10))
        ]
        some = [self.choice(trials) for _ in range(4) if trials]
        points = [self.point(f"c{n}", t) for n, t in enumerate(some)]
        live = {Table.EXPERIMENTS: self.live(experiments), Table.RUNS: self.live(trials)}
        return World(experiments, trials, points, live)

    def live(self, rows: Sequence[dict[str, Any]]) -> LiveStates:
        """Some that were active a moment ago are not any more."""
        places = {row["id"]: self.choice(LIVE) for row in rows}
        return LiveStates(
            {word: [i for i, at in places.items() if at == word] for word in LIVE if word != QUEUED}
        )

    def experiment(self, id_: int) -> dict[str, Any]:
        searcher = {
            "name": self.choice(("single", "random")),
            "metric": self.choice(("loss", "Acc")),
            "smaller_is_better": self.choice((True, False)),
        }
        return {
            "id": id_,
            "job_id": f"job-{id_}",
            "owner_id": self.choice((1, 2)),
            "project_id": self.choice((1, 2)),
            "parent_id": self.choice((None, 1, 2)),
            "state": self.choice(("ACTIVE", "PAUSED", "COMPLETED")),
            "name": self.choice(WORDS),
            "description": self.choice(WORDS),
            "labels": [self.choice(WORDS) for _ in range(self.randrange(3))],
            "archived": self.choice((True, False)),
            "unmanaged": self.randrange(4) == 0,
            "external_id": f"{self.choice(WORDS)}{id_}" if self.choice((True, False)) else None,
            "config": {"searcher": searcher, "hyperparameters": self.space()},
            "model_files": [],
            "resource_pool": self.choice(WORDS),
            "progress": self.choice((0.0, 0.5, 1.0)),
            "created_at": self.time(),
            "ended_at": self.choice((None, NOW)),
        }

    def trial(self, id_: int, experiment_id: int) -> dict[str, Any]:
        return {
            "id": id_,
            "experiment_id": experiment_id,
            "request_id": f"r{id_}",
            "local_number": id_,
            "task_id": f"t{id_}",
            "state": self.choice(("ACTIVE", "COMPLETED", "ERROR")),
            "hparams": self.object(),
            "seed": 0,
            "avoids": [],
            "searcher_metric": self.choice((None, -2.0, 0.0, 1.0)),
            "summary_metrics": self.summary(),
            "metric_groups": {},
            "run_metadata": self.choice((None, self.object())),
            "last_activity": self.choice((None, None, START)),
            "created_at": self.time(),
            "ended_at": self.choice((None, NOW)),
        }

    def point(self, uuid: str, run: dict[str, Any]) -> dict[str, Any]:
        return {
            "uuid": uuid,
            "task_id": run["task_id"],
            "trial_id": run["id"],
            "experiment_id": run["experiment_id"],
            "state": self.choice(("COMPLETED", "DELETED")),
            "resources": {},
            "meta": {},
            "size": self.randrange(3),
            "reported_at": START,
        }

    def written(self, table: Table, depth: int = 0) -> Node:
        """A tree that there is a text for."""
        if depth and self.randrange(3) == 0:
            return Not(self.written(table, depth + 1))
        if depth < 3 and self.randrange(2):
            children = tuple(self.written(table, depth + 1) for _ in range(2))
            return Group(self.choice((True, False)), children)
        with suppress(InvalidArgument):
            field = self.condition(table)
            found = parse_filter(json.dumps({"filterGroup": field}), table).root
            if isinstance(found, Condition) and found.source != STATE:
                return found
        equality = self.choice((Operator.EQUAL, Operator.UNEQUAL))
        return Condition(STATE, equality, self.choice((*STATES, "ACTIVE", *LIVE, *LIVE)))

    def search(self) -> tuple[Table, str, str]:
        table = self.choice(list(Table))
        filter_ = {
            "filterGroup": self.node(table),
            "showArchived": self.choice((True, True, False)),
        }
        return table, json.dumps(filter_), self.sort(table)

    def node(self, table: Table, depth: int = 0) -> dict[str, Any]:
        if depth > 2 or (depth and self.randrange(3)):
            return self.condition(table)
        children = [self.node(table, depth + 1) for _ in range(self.randrange(4))]
        conjunction = self.choice(("and", "or"))
        return {"kind": "group", "conjunction": conjunction, "children": children}

    def path(self) -> str:
        return ".".join(self.choice(KEYS) for _ in range(self.choice((1, 1, 2)))) or "a"

    def metric(self) -> str:
        group, name = (
            self.choice(("training", "validation", "own")),
            self.choice(("loss", "a.b", "é")),
        )
        return f"{group}.{name}.{self.choice(('min', 'max', 'last'))}"

    def condition(self, table: Table) -> dict[str, Any]:
        location = self.choice(("", "HYPERPARAMETERS", "CUSTOM_METRIC", "RUN_METADATA"))
        operators = list(Operator)
        ordering, containing = operators[2:6], operators[6:8]
        operator = self.choice(operators)
        value: Any = self.choice((self.choice(NUMBERS), self.choice(WORDS)))
        if operator not in ordering:
            value = self.choice((value, value, True, False))
        if location == "RUN_METADATA" and table is Table.RUNS:
            name = f"metadata.{self.path()}"
        elif location == "HYPERPARAMETERS":
            name = f"hp.{self.path()}"
        elif location == "CUSTOM_METRIC":
            name = self.metric()
        else:
            location, name = "", self.choice(sorted(COLUMNS[table]))
            text = (*WORDS, "ACTIVE", "PAUSED", "loss", "single", "PROJE-1", "ann")
            value, refused = {
                Kind.NUMBER: (self.choice(NUMBERS), containing),
                Kind.DATE: (self.time().isoformat(), containing),
                Kind.TEXT: (self.choice(text), []),
                Kind.TAGS: (self.choice(WORDS), ordering),
                Kind.BOOLEAN: (self.choice((True, False)), ordering + containing),
            }[COLUMNS[table][name].kind]
            operator = self.choice([o for o in operators if o not in refused])
        return {
            "kind": "field",
            "columnName": name,
            "location": location and f"LOCATION_TYPE_{location}",
            "operator": operator,
            "value": self.choice((value, value, value, None)),
        }

    def sort(self, table: Table) -> str:
        columns = [name for name, info in COLUMNS[table].items() if info.kind is not Kind.TAGS]
        names = [
            self.choice((self.choice(columns), self.metric(), f"hp.{self.choice(('a', 'b', 'é'))}"))
            for _ in range(self.randrange(3))
        ]
        return ",".join(f"{name}={self.choice(('asc', 'desc'))}" for name in names)


@pytest.mark.slow
def test_sql_finds_what_plain_python_finds(db_url: str) -> None:
    clock = ManualClock(NOW)
    with asyncio.Runner() as runner:
        opened = leading_store(db_url, clock)
        store = runner.run(opened.__aenter__())
        try:
            runner.run(prepare(store))

            @settings(max_examples=examples(10))
            @given(st.integers(0, 2**32).map(Draw))
            def holds(draw: Draw) -> None:
                world = draw.world()
                searches = [draw.search() for _ in range(8)]
                found = [(table, parse_filter(text, table), by) for table, text, by in searches]
                for table in Table:
                    root = draw.written(table)
                    assert parse(printed(root, table), table, READER) == root
                    found.append((table, Filter(root, show_archived=True), draw.sort(table)))
                runner.run(_check(store, world, found))

            holds()
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def prepare(store: Store) -> None:
    """A second user and a second, archived project in a workspace of its own."""
    now = {"created_at": START, "modified_at": START}
    unit = UnitOfWork()
    for id_, name in ((1, "ann"), (2, "Bob")):
        unit.insert(tables.User, {"id": id_, "username": name, "display_name": "", **now})
    for id_ in (1, 2):
        unit.insert(tables.Workspace, {"id": id_, "name": f"w{id_}", "user_id": 1})
        project = {"name": "Project", "key": "PROJE", "archived": False} if id_ == 1 else OTHER
        unit.insert(tables.Project, {"id": id_, "workspace_id": id_, "user_id": 1, **project})
    await store.commit(unit)


async def _check(store: Store, world: World, searches: list[tuple[Table, Filter, str]]) -> None:
    unit = UnitOfWork()
    for table in (tables.Checkpoint, tables.Trial, tables.Experiment):
        unit.execute(delete(table))
    unit.insert(tables.Experiment, *world.experiments)
    unit.insert(tables.Trial, *world.trials)
    unit.insert(tables.Checkpoint, *world.checkpoints)
    await store.commit(unit)
    finder = Finder(store)
    plain = {Table.RUNS: _runs(world), Table.EXPERIMENTS: _experiments(world)}
    for table, filter_, sort in searches:
        search = world.search(table, filter_, sort)
        find = finder.run_ids if table is Table.RUNS else finder.experiment_ids
        wanted = [s for s in plain[table] if matches(s, search.filter)]
        assert await find(search, NOW, EVERYTHING) == sorted_ids(wanted, tuple(search.sorts)), (
            table,
            filter_,
            sort,
        )
        projects = {e["id"]: e["project_id"] for e in world.experiments}
        of = "experimentId" if table is Table.RUNS else "id"
        mine = [s for s in wanted if projects[s.columns[of]] == 2]
        page = await (finder.run_page if table is Table.RUNS else finder.experiment_page)(
            search, Page(offset=min(1, len(mine)), limit=1), NOW, Visibility(frozenset({2}))
        )
        assert (page.total, len(page.rows)) == (len(mine), len(mine[1:2]))


@pytest.mark.parametrize("text", ["x\0y", "\ud800", "\udc00\ud800"])
async def test_what_postgresql_cannot_read_hides_nothing_else(store: Store, text: str) -> None:
    await prepare(store)
    unit, draw = UnitOfWork(), Draw(0)
    unit.insert(tables.Experiment, {**draw.experiment(1), "archived": False})
    for id_, hparams in ((1, {"a": text, "b": 1}), (2, {"a": "\U0001f600", "b": 1})):
        unit.insert(tables.Trial, {**draw.trial(id_, 1), "hparams": hparams})
    await store.commit(unit)
    field = {"kind": "field", "columnName": "hp.a", "operator": "=", "value": "\U0001f600"}
    field["location"] = "LOCATION_TYPE_RUN_HYPERPARAMETERS"
    search = Search(
        filter=parse_filter(json.dumps({"filterGroup": field}), Table.RUNS),
        sorts=parse_sorts("hp.b=asc", Table.RUNS),
    )
    assert await Finder(store).run_ids(search, NOW, EVERYTHING) == [2]


def _shared(experiment: dict[str, Any]) -> dict[str, Any]:
    searcher = experiment["config"]["searcher"]
    return {
        "tags": experiment["labels"],
        "forkedFrom": experiment["parent_id"],
        "searcherType": searcher["name"],
        "searcherMetric": searcher["metric"],
        "resourcePool": experiment["resource_pool"],
        "user": ["ann", "Bob"][experiment["owner_id"] - 1],
        "projectId": experiment["project_id"],
        "externalExperimentId": experiment["external_id"],
        "archived": experiment["archived"],
        "projectName": ["Project", "q"][experiment["project_id"] - 1],
        "workspaceName": f"w{experiment['project_id']}",
        "parentArchived": experiment["project_id"] == 2,
    }


def _live(world: World, table: Table, id_: int, *, elsewhere: bool) -> str:
    ids = world.live[table].ids
    return RUNNING if elsewhere else next((word for word in ids if id_ in ids[word]), QUEUED)


def _times(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "startTime": row["created_at"],
        "endTime": row["ended_at"],
        "duration": max(0, ((row["ended_at"] or NOW) - row["created_at"]) // timedelta(seconds=1)),
    }


def _points(world: World, key: str, id_: int) -> dict[str, Any]:
    found = [c for c in world.checkpoints if c[key] == id_ and c["state"] != "DELETED"]
    return {"checkpointCount": len(found), "checkpointSize": sum(c["size"] for c in found)}


def _runs(world: World) -> list[Subject]:
    experiments = {e["id"]: e for e in world.experiments}
    return [_run(world, t, experiments[t["experiment_id"]]) for t in world.trials]


def _run(world: World, t: dict[str, Any], e: dict[str, Any]) -> Subject:
    paused = t["state"] == "ACTIVE" and e["state"] == "PAUSED"
    columns = {
        **_shared(e),
        **_times(t),
        **_points(world, "trial_id", t["id"]),
        "id": t["id"],
        "state": "PAUSED" if paused else t["state"],
        "searcherMetricsVal": t["searcher_metric"],
        "experimentName": e["name"],
        "experimentDescription": e["description"],
        "experimentProgress": e["progress"],
        "experimentId": e["id"],
        "externalRunId": None,
        "localId": f"{'PROJE' if e['project_id'] == 1 else 'Q'}-{t['id']}",
        "isExpMultitrial": e["config"]["searcher"]["name"] != "single",
    }
    is_active = columns["state"] == "ACTIVE"
    elsewhere = t["last_activity"] is not None
    return Subject(
        id=t["id"],
        live=_live(world, Table.RUNS, t["id"], elsewhere=elsewhere) if is_active else None,
        columns=columns,
        archived=e["archived"],
        config=e["config"],
        hparams=t["hparams"],
        metadata=t["run_metadata"],
        summary=t["summary_metrics"],
    )


def _experiments(world: World) -> list[Subject]:
    return [_experiment(world, e) for e in world.experiments]


def _experiment(world: World, e: dict[str, Any]) -> Subject:
    mine = [t for t in world.trials if t["experiment_id"] == e["id"]]
    measured = [t for t in mine if t["searcher_metric"] is not None]
    sign = 1 if e["config"]["searcher"]["smaller_is_better"] else -1
    best = min(measured, key=lambda t: (sign * t["searcher_metric"], t["id"]), default=None)
    columns = {
        **_shared(e),
        **_times(e),
        **_points(world, "experiment_id", e["id"]),
        "id": e["id"],
        "name": e["name"],
        "description": e["description"],
        "numTrials": len(mine),
        "state": e["state"],
        "searcherMetricsVal": best and best["searcher_metric"],
        "progress": e["progress"],
        "externalTrialId": None,
    }
    is_active = e["state"] == "ACTIVE"
    place = _live(world, Table.EXPERIMENTS, e["id"], elsewhere=e["unmanaged"])
    return Subject(
        id=e["id"],
        live=place if is_active else None,
        columns=columns,
        archived=e["archived"],
        config=e["config"],
        hparams={},
        metadata=None,
        summary=best["summary_metrics"] if best else {},
    )
