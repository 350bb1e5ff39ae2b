"""Random filters and sorts over random experiments and runs: SQL finds what plain Python finds, on both databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.visibility import EVERYTHING, Visibility
from master.experiments.finding.columns import COLUMNS, Kind, Table
from master.experiments.finding.filters import Operator, parse_filter
from master.experiments.finding.queries import Finder, Search
from master.experiments.finding.sorts import parse_sorts
from master.store import tables
from master.store.paging import Page
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.examples import examples
from tests.fakes.plain_filter import Subject, matches, sorted_ids
from tests.stores import leading_store
from windlass.base.clock import ManualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=1)
KEYS = ("a", "b", "0", "é", 'q"\\', "")
"""Of JSON: plain ones, one like an index of an array, and what paths in SQL have trouble with."""
WORDS = ("", "a", "ab", "Ab", "é", "100%", "_", "'", 'x"y')
words = st.sampled_from(WORDS)
numbers = st.integers(-3, 3) | st.sampled_from((0.5, -0.25, 1e-9, 2.0, 1e300, 10**30))
scalars = st.none() | st.booleans() | numbers | words
free = st.recursive(
    scalars | st.lists(scalars, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=4,
)
objects = st.dictionaries(st.sampled_from(KEYS), free, max_size=3)
times = st.integers(0, 10**12).map(lambda us: START + timedelta(microseconds=us))
bounds = st.tuples(numbers, numbers).map(sorted)
leaves = (
    st.builds(lambda val: {"type": "const", "val": val}, free)
    | st.builds(lambda v: {"type": "categorical", "vals": v}, st.lists(scalars, min_size=1, max_size=3))
    | st.builds(
        lambda kind, b: {"type": kind, "minval": b[0], "maxval": b[1]},
        st.sampled_from(("int", "double", "log")),
        bounds,
    )
)
spaces = st.dictionaries(
    st.sampled_from(KEYS), leaves | st.dictionaries(st.sampled_from(KEYS), leaves, max_size=2), max_size=3
)
statistics = st.fixed_dictionaries(
    {"last": scalars}, optional={"min": numbers, "max": numbers, "mean": numbers}
)
summaries = st.dictionaries(
    st.sampled_from(("avg_metrics", "validation_metrics", "own")),
    st.dictionaries(st.sampled_from(("loss", "a.b", "é")), statistics, max_size=2),
    max_size=2,
)


@dataclass(frozen=True, slots=True)
class World:
    experiments: Sequence[dict[str, Any]]
    trials: Sequence[dict[str, Any]]
    checkpoints: Sequence[dict[str, Any]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    found = [draw(experiments(id_)) for id_ in range(1, draw(st.integers(1, 4)) + 1)]
    runs = [
        draw(trials(id_, found[draw(st.integers(0, len(found) - 1))]["id"]))
        for id_ in range(1, draw(st.integers(0, 6)) + 1)
    ]
    points = [
        draw(checkpoints(f"c{n}", run)) for n in range(4) if runs and (run := draw(st.sampled_from(runs)))
    ]
    return World(found, runs, points)


@st.composite
def experiments(draw: st.DrawFn, id_: int) -> dict[str, Any]:
    searcher = {
        "name": draw(st.sampled_from(("single", "random"))),
        "metric": draw(st.sampled_from(("loss", "Acc"))),
        "smaller_is_better": draw(st.booleans()),
    }
    return {
        "id": id_,
        "job_id": f"job-{id_}",
        "owner_id": draw(st.integers(1, 2)),
        "project_id": draw(st.integers(1, 2)),
        "parent_id": draw(st.none() | st.integers(1, 3)),
        "state": draw(st.sampled_from(("ACTIVE", "PAUSED", "COMPLETED"))),
        "name": draw(words),
        "description": draw(words),
        "labels": draw(st.lists(words, max_size=2)),
        "archived": draw(st.booleans()),
        "external_id": draw(st.none() | words),
        "config": {"searcher": searcher, "hyperparameters": draw(spaces)},
        "model_files": [],
        "resource_pool": draw(words),
        "progress": draw(st.sampled_from((0.0, 0.5, 1.0))),
        "created_at": draw(times),
        "ended_at": draw(st.none() | st.just(NOW)),
    }


@st.composite
def trials(draw: st.DrawFn, id_: int, experiment_id: int) -> dict[str, Any]:
    return {
        "id": id_,
        "experiment_id": experiment_id,
        "request_id": f"r{id_}",
        "task_id": f"t{id_}",
        "state": draw(st.sampled_from(("ACTIVE", "COMPLETED", "ERROR"))),
        "hparams": draw(objects),
        "seed": 0,
        "avoids": [],
        "searcher_metric": draw(st.none() | st.integers(-2, 2).map(float)),
        "summary_metrics": draw(summaries),
        "metric_groups": {},
        "run_metadata": draw(st.none() | objects),
        "created_at": draw(times),
        "ended_at": draw(st.none() | st.just(NOW)),
    }


@st.composite
def checkpoints(draw: st.DrawFn, uuid: str, run: dict[str, Any]) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "task_id": run["task_id"],
        "trial_id": run["id"],
        "experiment_id": run["experiment_id"],
        "state": draw(st.sampled_from(("COMPLETED", "DELETED"))),
        "resources": {},
        "meta": {},
        "size": draw(st.integers(0, 2)),
        "reported_at": START,
    }


paths = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3).map(".".join)
metric_ids = st.builds(
    lambda *parts: ".".join(parts),
    st.sampled_from(("training", "validation", "own")),
    st.sampled_from(("loss", "a.b", "é", "x")),
    st.sampled_from(("min", "max", "mean", "last")),
)


@st.composite
def conditions(draw: st.DrawFn, table: Table) -> dict[str, Any]:
    locations = ["", "HYPERPARAMETERS", "CUSTOM_METRIC"]
    location = draw(st.sampled_from(locations + ["RUN_METADATA"] * (table is Table.RUNS)))
    operators = list(Operator)
    value: st.SearchStrategy[Any] = numbers | words
    if location == "":
        name = draw(st.sampled_from(sorted(COLUMNS[table])))
        kind = COLUMNS[table][name].kind
        ordering, containing = operators[2:6], operators[6:8]
        value, refused = {
            Kind.NUMBER: (numbers, containing),
            Kind.DATE: (times.map(datetime.isoformat), containing),
            Kind.TEXT: (words | st.sampled_from(("ACTIVE", "PAUSED", "loss", "single", "PROJ-1")), []),
            Kind.TAGS: (words, ordering),
            Kind.BOOLEAN: (st.booleans(), ordering + containing),
        }[kind]
        operators = [o for o in operators if o not in refused]
    elif location == "CUSTOM_METRIC":
        name = draw(metric_ids)
    else:
        name = ("metadata." if location == "RUN_METADATA" else "hp.") + draw(paths)
        if name.endswith(("hp.", "metadata.")):
            name += "a"
    operator = draw(st.sampled_from(operators))
    if location and operator not in operators[2:6]:
        value |= st.booleans()
    return {
        "kind": "field",
        "columnName": name,
        "location": f"LOCATION_TYPE_{location}" if location else "",
        "operator": operator,
        "value": draw(st.none() | value),
    }


def filters(table: Table) -> st.SearchStrategy[str]:
    node = st.recursive(
        conditions(table),
        lambda inner: st.fixed_dictionaries(
            {
                "kind": st.just("group"),
                "conjunction": st.sampled_from(("and", "or")),
                "children": st.lists(inner, max_size=3),
            }
        ),
        max_leaves=4,
    )
    return st.builds(
        lambda root, shown: json.dumps({"filterGroup": root, "showArchived": shown}),
        node,
        st.sampled_from((True, True, False)),
    )


@st.composite
def sorts(draw: st.DrawFn, table: Table) -> str:
    columns = [name for name, info in COLUMNS[table].items() if info.kind is not Kind.TAGS]
    names = st.sampled_from(columns) | metric_ids | st.sampled_from(("a", "b", "é", "a.b")).map("hp.{}".format)
    parts = draw(st.lists(st.tuples(names, st.sampled_from(("asc", "desc"))), max_size=3))
    return ",".join(f"{name}={direction}" for name, direction in parts)


@st.composite
def asked(draw: st.DrawFn) -> tuple[Table, str, str]:
    table = draw(st.sampled_from(list(Table)))
    return table, draw(filters(table)), draw(sorts(table))


@settings(max_examples=1)
@given(st.none())
def _nothing(_: None) -> None: ...


def test_sql_finds_what_plain_python_finds(db_url: str) -> None:
    clock = ManualClock(NOW)
    with asyncio.Runner() as runner:
        opened = leading_store(db_url, clock)
        store = runner.run(opened.__aenter__())
        try:

            @settings(max_examples=examples(60))
            @given(worlds(), st.lists(asked(), min_size=4, max_size=8))
            def holds(world: World, searches: list[tuple[Table, str, str]]) -> None:
                runner.run(_check(store, clock, world, searches))

            runner.run(_prepare(store))
            holds()
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def _prepare(store: Store) -> None:
    """A second user and a second, archived project in a workspace of its own."""
    now = {"created_at": START, "modified_at": START}
    unit = UnitOfWork()
    for table in (tables.User, tables.Workspace, tables.Project):
        assert not await store.read(table_ids(table)), "a new database has none of these"
    for id_, name in ((1, "ann"), (2, "Bob")):
        unit.insert(tables.User, {"id": id_, "username": name, "display_name": "", **now})
    for id_ in (1, 2):
        unit.insert(tables.Workspace, {"id": id_, "name": f"w{id_}", "user_id": 1})
        project = {"name": "Project" if id_ == 1 else "q", "archived": id_ == 2}
        unit.insert(tables.Project, {"id": id_, "workspace_id": id_, "user_id": 1, **project})
    await store.commit(unit)


def table_ids(table: Any) -> Any:
    from sqlalchemy import select

    return select(table.id)


async def _check(
    store: Store, clock: ManualClock, world: World, searches: list[tuple[Table, str, str]]
) -> None:
    from sqlalchemy import delete

    unit = UnitOfWork()
    for table in (tables.Checkpoint, tables.Trial, tables.Experiment):
        unit.execute(delete(table))
    unit.insert(tables.Experiment, *world.experiments)
    unit.insert(tables.Trial, *world.trials)
    unit.insert(tables.Checkpoint, *world.checkpoints)
    await store.commit(unit)
    finder = Finder(store, clock)
    plain = {Table.RUNS: _runs(world), Table.EXPERIMENTS: _experiments(world)}
    for table, filter_, sort in searches:
        search = Search(filter=parse_filter(filter_, table), sorts=parse_sorts(sort, table))
        find = finder.run_ids if table is Table.RUNS else finder.experiment_ids
        wanted = [s for s in plain[table] if matches(s, search.filter)]
        assert await find(search, EVERYTHING) == sorted_ids(wanted, tuple(search.sorts)), (
            table,
            filter_,
            sort,
        )
        projects = {e["id"]: e["project_id"] for e in world.experiments}
        mine = [s.id for s in wanted if projects[s.columns["experimentId"] if table is Table.RUNS else s.id] == 2]
        assert sorted(await find(search, Visibility(workspaces=frozenset({2})))) == mine
        page = await (finder.run_page if table is Table.RUNS else finder.experiment_page)(
            search, Page(offset=1 if len(wanted) else 0, limit=1), EVERYTHING
        )
        assert page.total == len(wanted)


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
    }


def _times(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "startTime": row["created_at"],
        "endTime": row["ended_at"],
        "duration": ((row["ended_at"] or NOW) - row["created_at"]) // timedelta(seconds=1),
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
        "parentArchived": e["project_id"] == 2,
    }
    return Subject(
        id=t["id"],
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
    return Subject(
        id=e["id"],
        columns=columns,
        archived=e["archived"],
        config=e["config"],
        hparams={},
        metadata=None,
        summary=best["summary_metrics"] if best else {},
    )
