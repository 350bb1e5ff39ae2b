"""Lists by filters that people write, over REST."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.fakes.api_world import ASHA, ApiWorld

EXPERIMENTS, RUNS = "/api/v1/windlass/experiments", "/api/v1/windlass/runs"


async def listed(world: ApiWorld, path: str, **query: Any) -> list[dict[str, Any]]:
    answer = await world.ok("GET", f"{path}?{urlencode(query, doseq=True)}")
    rows: list[dict[str, Any]] = answer["experiments" if path == EXPERIMENTS else "runs"]
    assert answer["pagination"]["total"] >= len(rows)
    return rows


async def experiment_ids(world: ApiWorld, filter: str, **query: Any) -> list[int]:
    """Newest first; the route for ids alone says the same."""
    ids = [r["experiment"]["id"] for r in await listed(world, EXPERIMENTS, filter=filter, **query)]
    alone = await world.ok("GET", f"{EXPERIMENTS}/ids?{urlencode({'filter': filter})}")
    assert (alone["ids"], alone["total"]) == (ids, len(ids))
    return ids


async def run_ids(world: ApiWorld, filter: str) -> list[int]:
    ids = [r["id"] for r in await listed(world, RUNS, filter=filter)]
    alone = await world.ok("GET", f"{RUNS}/ids?{urlencode({'filter': filter})}")
    assert (alone["ids"], alone["total"]) == (ids, len(ids))
    return ids


async def test_states_are_those_that_are_shown(world: ApiWorld) -> None:
    await world.add_agent(slots=1)
    first, second = await world.create(), await world.create(ASHA)
    await world.run_of(first)
    paused = await world.create()
    await world.ok("POST", f"/api/v1/experiments/{paused}/pause")
    assert await experiment_ids(world, "state = RUNNING") == [first]
    assert await experiment_ids(world, "state = QUEUED") == [second]
    assert await experiment_ids(world, "state = ACTIVE") == [second, first]
    assert await experiment_ids(world, "state ~ paus") == [paused]
    assert await experiment_ids(world, "state != RUNNING") == [paused, second]
    assert await experiment_ids(world, "not state in (RUNNING, QUEUED)") == [paused]
    for row in await listed(world, EXPERIMENTS, sort="state"):
        shown = row["experiment"]
        assert shown["id"] in await experiment_ids(world, f"state = {shown['state']}")
    running = world.trial_id(first)
    assert await run_ids(world, "state = RUNNING") == [running]
    waiting = await run_ids(world, f"state = QUEUED and experiment = {second}")
    assert waiting == [world.trial_id(second, n) for n in (3, 2, 1, 0)]
    for row in await listed(world, RUNS):
        assert row["id"] in await run_ids(world, f"state = {row['state']}")
        assert (row["waitingReason"] is not None) == (row["state"] == "STATE_QUEUED")


async def test_columns_of_choice_come_with_the_rows(world: ApiWorld) -> None:
    await world.add_agent()
    single, search = await world.create(), await world.create(ASHA)
    await world.run_of(single)
    trial = world.trial_id(single)
    await world.report(trial, "validation", 3, loss=0.5)
    await world.ok("POST", f"/api/v1/runs/{trial}/metadata", {"metadata": {"a": {"b": "x"}}})
    columns = ["lr", "metric.validation.loss", "validation.loss.max", "hp.none_such"]
    rows = await listed(world, EXPERIMENTS, columns=columns, sort="id")
    assert rows[0]["values"] == [0.5, 0.5, 0.5, None]
    assert rows[1]["values"][0]["type"] == "double"
    assert rows[1]["values"][1:] == [None] * 3
    found = await listed(world, RUNS, columns=["metadata.a.b", *columns], sort="-best,-id")
    assert found[0]["id"] == trial
    assert found[0]["values"] == ["x", 0.5, 0.5, 0.5, None]
    assert (found[0]["experimentId"], found[0]["localId"]) == (single, f"UNCAT-{trial}")
    by_metric = await listed(world, EXPERIMENTS, sort="metric.validation.loss")
    assert [r["experiment"]["id"] for r in by_metric] == [single, search]
    assert await experiment_ids(world, "metric.validation.loss <= 0.5 and user = me") == [single]
    assert await run_ids(world, "metadata.a.b = x and lr = 0.5") == [trial]


async def test_archived_ones_are_shown_if_the_filter_is_about_them(world: ApiWorld) -> None:
    kept, hidden = await world.create(), await world.create()
    await world.ok("POST", f"/api/v1/experiments/{hidden}/kill")
    live = world.services.experiments.live(hidden)
    if live is not None:
        await live.wait_until(lambda state: state.phase.is_terminal)
    await world.ok("POST", f"/api/v1/experiments/{hidden}/archive")
    assert await experiment_ids(world, "") == [kept]
    assert await experiment_ids(world, "archived = true") == [hidden]
    rows = await listed(world, EXPERIMENTS, archived="true")
    assert [r["experiment"]["id"] for r in rows] == [hidden, kept]
    body = {"written": "archived = true or id = 0"}
    found = await world.ok("POST", "/api/v1/experiments-search", body)
    assert [r["experiment"]["id"] for r in found["experiments"]] == [hidden]


async def test_words_are_those_of_what_there_is(world: ApiWorld) -> None:
    await world.add_agent()
    single = await world.create()
    await world.run_of(single)
    await world.report(world.trial_id(single), "validation", 3, loss=0.5)
    await world.ok("PUT", f"/api/v1/experiments/{single}/labels/good")
    for path in (EXPERIMENTS, RUNS):
        answer = await world.ok("GET", f"{path}/words?projectId=1")
        words = {word["name"]: word for word in answer["words"]}
        assert "RUNNING" in words["state"]["values"]
        assert words["label"]["values"] == ["first", "good"]
        assert words["hp.lr"]["kind"] == "number"
        assert words["metric.validation.loss.min"]["meaning"] == ""
        assert words["started"]["meaning"]
        for word in words:
            await listed(world, path, filter=f'"{word}" != none')


@pytest.mark.parametrize("path", [EXPERIMENTS, RUNS])
async def test_what_is_wrong_is_said_with_its_place(world: ApiWorld, path: str) -> None:
    answer = await world.call("GET", f"{path}?{urlencode({'filter': 'state = RUNING'})}")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["start"], error["end"]) == (8, 14)
    assert "did you mean RUNNING" in error["error"] == answer.json()["message"]
    for query, word in (
        ({"sort": "label"}, "no order"),
        ({"sort": "stat"}, "did you mean state"),
        ({"sort": "-"}, "sort: expected"),
        ({"columns": "state"}, "in each row in any case"),
        ({"columns": "stat"}, "did you mean state"),
        ({"columns": ["a"] * 51}, "columns"),
        ({"limit": 1001}, "limit"),
        ({"offset": 7}, "offset"),
    ):
        asked = f"{path}?{urlencode(query, doseq=True)}"
        assert word in await world.refused(400, "GET", asked)
    assert "project" in await world.refused(404, "GET", f"{path}?projectId=99")
    assert "project" in await world.refused(404, "GET", f"{path}/words?projectId=99")
